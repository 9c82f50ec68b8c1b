// Package seccomp holds the system call profiles of boxes, as the JSON text
// that the engine's API takes.
//
// The profiles are generated: package derive takes the list of the Docker
// project and applies our changes, and a test holds the files here to what it
// makes. So this package, which every agentbox links, needs no library.
//
// Invariants, of every profile:
//   - A socket is UNIX, INET, INET6 or one of a few NETLINK protocols; raw
//     packets, VSOCK (a line to the machine's hypervisor) and ALG are shut.
//   - socketcall, which would hide a socket's family from the filter, is shut.
//   - io_uring is shut.
//   - What is not named is refused, not killed and not logged.
package seccomp

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
)

//go:generate go test -run TestProfilesAreDerived -update .

// Name names a profile.
type Name string

// The profiles, each wider than the one before.
const (
	// Default is for boxes that run no sandbox of their own.
	Default Name = "default"
	// Browser also lets Chromium make its sandbox: user namespaces and chroot.
	Browser Name = "browser"
	// Sandbox also lets an agent's own sandbox mount inside its namespaces.
	Sandbox Name = "sandbox"
	// NestedMin also lets a rootless engine run inside.
	NestedMin Name = "nested-min"
)

// Names lists the profiles.
var Names = []Name{Default, Browser, Sandbox, NestedMin}

//go:embed profiles/default.json
var defaultJSON string

//go:embed profiles/browser.json
var browserJSON string

//go:embed profiles/sandbox.json
var sandboxJSON string

//go:embed profiles/nested-min.json
var nestedMinJSON string

// JSON is the profile's text in one line, for SecurityOpt "seccomp=…".
func JSON(name Name) (string, error) {
	switch name {
	case Default:
		return defaultJSON, nil
	case Browser:
		return browserJSON, nil
	case Sandbox:
		return sandboxJSON, nil
	case NestedMin:
		return nestedMinJSON, nil
	}
	return "", fmt.Errorf("no seccomp profile is named %q", name)
}

// Hash identifies a profile's text: its SHA-256's first 16 hex digits.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Package version says which agentbox this is.
package version

import "runtime/debug"

// stamped is set at link time: -ldflags "-X …/cli/internal/version.stamped=v1.2.3".
var stamped string

// String is the version as in "v1.2.3"; "v0.0.0-dev" for a build from a work
// tree.
func String() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "v0.0.0-dev"
}

package core

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Home is the folder of a user's AgentBox state on the host, mode 0700. Its
// methods are the one place that knows where things lie in it.
type Home string

// DefaultHome is $AGENTBOX_HOME, else ~/.agentbox. The path is absolute.
func DefaultHome() (Home, error) {
	dir := os.Getenv("AGENTBOX_HOME")
	if dir == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the home folder: %w; set AGENTBOX_HOME", err)
		}
		dir = filepath.Join(user, ".agentbox")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve AGENTBOX_HOME: %w", err)
	}
	home := Home(abs)
	if len(home.RelaySocket("b00000000")) > maxSocketPath {
		return "", fmt.Errorf("AGENTBOX_HOME %q is too long: %w: a socket path below it would exceed %d bytes; choose a shorter folder", abs, errors.ErrUnsupported, maxSocketPath)
	}
	return home, nil
}

// maxSocketPath is the room of sockaddr_un.sun_path without its NUL (unix(7)).
const maxSocketPath = 107

// Create makes the folder with mode 0700, and tightens an existing one.
func (h Home) Create() error {
	if err := os.MkdirAll(string(h), 0o700); err != nil {
		return fmt.Errorf("create the state folder: %w", err)
	}
	if err := os.Chmod(string(h), 0o700); err != nil {
		return fmt.Errorf("close the state folder to others: %w", err)
	}
	return nil
}

func (h Home) join(parts ...string) string {
	return filepath.Join(append([]string{string(h)}, parts...)...)
}

// State is the file of box records.
func (h Home) State() string { return h.join("state.json") }

// RelayPID and RelayLog belong to the detached relay.
func (h Home) RelayPID() string { return h.join("relay.pid") }

// RelayLog is where the detached relay writes.
func (h Home) RelayLog() string { return h.join("relay.log") }

// OperatorSocket is the relay's socket for the user, mode 0600.
func (h Home) OperatorSocket() string { return h.join("run", "relay.sock") }

// RelayDB is the relay's SQLite database.
func (h Home) RelayDB() string { return h.join("relay", "relay.db") }

// AuditHead is where the relay keeps the head of the audit log once more, so
// that a change of the database shows. It lies beside the relay's folder, not
// in it: who puts an old copy of the folder back does not put it back too.
func (h Home) AuditHead() string { return h.join("audit.head") }

// Bridges is where the relay keeps how it reaches boxes that no socket of this
// machine reaches, with the keys to them.
func (h Home) Bridges() string { return h.join("relay", "bridges") }

// CIConsents is where the relay keeps for which repositories the user lets CI run
// on pushes of boxes' own branches.
func (h Home) CIConsents() string { return h.join("relay", "ci.json") }

// PlaneToken is the laptop's own bearer at the user's plane, mode 0600.
func (h Home) PlaneToken() string { return h.join("control-plane", "laptop.token") }

// PlaneCursor tells how far the plane is.
func (h Home) PlaneCursor() string { return h.join("relay", "plane.json") }

// Seed is the seed store of the repository with this key.
func (h Home) Seed(key string) string { return h.join("git", "seeds", key+".git") }

// SeedLock is the lock file that every writer of a seed or gate of the key holds.
func (h Home) SeedLock(key string) string { return h.join("git", "seeds", key+".lock") }

// SeedTurnstile is the lock file that whoever wants SeedLock passes first.
func (h Home) SeedTurnstile(key string) string { return h.join("git", "seeds", key+".turn") }

// Box is the folder of one box; destroy removes it whole.
func (h Home) Box(boxID string) string { return h.join("boxes", boxID) }

// Gate is a box's gate of the repository with this key.
func (h Home) Gate(boxID, key string) string {
	return h.join("boxes", boxID, "gates", key+".git")
}

// RelayDir is bound read-only into the box; it holds the box's relay socket alone.
func (h Home) RelayDir(boxID string) string { return h.join("boxes", boxID, "relay") }

// RelaySocket is the box's own channel to the relay.
func (h Home) RelaySocket(boxID string) string { return h.join("boxes", boxID, "relay", "relay.sock") }

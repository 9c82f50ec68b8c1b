package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
)

// Errors of a state file that is left as it is; callers branch on them.
var (
	// ErrCorrupt: the file is no state file, or contradicts itself.
	ErrCorrupt = errors.New("the state file is damaged")
	// ErrNewer: a newer version of AgentBox wrote the file.
	ErrNewer = errors.New("a newer version of agentbox wrote the state file")
)

// lockRetry is how long a writer waits before it asks for the lock again.
const lockRetry = 5 * time.Millisecond

// maxFile bounds what is read: some ten thousand records.
const maxFile = 64 << 20

// Store is the state file of one home. It holds nothing open between calls.
type Store struct{ home core.Home }

// Open names the store of a home; the file need not exist yet.
func Open(home core.Home) *Store { return &Store{home} }

// Read returns the records as the last writer left them. Errors wrap
// ErrCorrupt or ErrNewer where the file is refused.
func (s *Store) Read() (*State, error) {
	data, err := s.load()
	if err != nil {
		return nil, err
	}
	if data == nil {
		return &State{}, nil
	}
	st, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.home.State(), err)
	}
	return st, nil
}

func (s *Store) load() ([]byte, error) {
	f, err := os.Open(s.home.State())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the state file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the state file: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read %s: %w: it is larger than %d bytes", s.home.State(), ErrCorrupt, maxFile)
	}
	return data, nil
}

// Update runs change on the current records, alone among all processes, and
// writes the outcome. When change fails, or changes nothing, the file stays.
func (s *Store) Update(ctx context.Context, change func(*State) error) error {
	if err := s.home.Create(); err != nil {
		return err
	}
	lock := flock.New(s.home.State()+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("wait for the lock of the state file: %w", err)
	}
	defer lock.Close() //nolint:errcheck // closing drops the lock; there is nothing to lose
	st, err := s.Read()
	if err != nil {
		return err
	}
	if err := change(st); err != nil {
		return err
	}
	data, changed, err := encode(st)
	if err != nil || !changed {
		return err
	}
	return atomicfile.Write(s.home.State(), data, 0o600)
}

package transfer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/core/provider"
	rules "github.com/madarco/agentbox/core/transfer"
	"github.com/madarco/agentbox/relay"
)

const (
	// maxSpools is how many copies of a box wait for an answer, the newest: a
	// box that asks for more takes the place of its own oldest.
	maxSpools = 4
	partial   = ".part"
	maxStderr = 4 << 10
)

var errPack = errors.New("the box could not pack it")

// spools are the folders below each box's that hold what was pulled.
type spools struct {
	home  core.Home
	boxes relay.Boxes
	kept  time.Duration
	limit rules.Limits

	mu    sync.Mutex
	turns map[string]chan struct{} // by box: it pulls one copy at a time
}

// pulled is what came out of a box.
type pulled struct {
	dir     string
	hash    string
	bytes   int64
	entries []rules.Entry
}

func (s *spools) inbox(boxID string) string     { return filepath.Join(s.home.Box(boxID), "inbox") }
func (s *spools) path(boxID, key string) string { return filepath.Join(s.inbox(boxID), key) }

// key names the spool of a request: the same copy to the same place has the same.
func (r request) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %s", r.Base, r.Targets, r.Content)
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// turn waits until the box pulls nothing else.
func (s *spools) turn(ctx context.Context, boxID string) (end func(), err error) {
	s.mu.Lock()
	c := s.turns[boxID]
	if c == nil {
		c = make(chan struct{}, 1)
		s.turns[boxID] = c
	}
	s.mu.Unlock()
	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another copy of the box: %w", ctx.Err())
	}
}

// pull has the box pack what is asked for, and lays it aside.
func (s *spools) pull(ctx context.Context, box core.Box, c rules.Copy) (*pulled, error) {
	end, err := s.turn(ctx, box.ID)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := s.sweep(box.ID, false); err != nil {
		return nil, err
	}
	p := &pulled{dir: s.path(box.ID, rand.Text()+partial)}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(p.dir)
	if err == nil {
		err = errors.Join(s.receive(ctx, box, c, root, p), root.Close())
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	return p, nil
}

// receive runs the packer in the box and decodes its answer.
func (s *spools) receive(ctx context.Context, box core.Box, c rules.Copy, root *os.Root, p *pulled) error {
	spec, err := json.Marshal(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, out := io.Pipe()
	said := &capped.Buffer{Max: maxStderr}
	ended := make(chan error, 1)
	go func() {
		code, err := s.boxes.Exec(ctx, box, provider.ExecRequest{
			Argv: []string{"agentbox-ctl", "pack"}, WorkDir: string(core.WorkspacePath), Stdin: bytes.NewReader(spec), Stdout: out, Stderr: said,
		})
		if err == nil && code != 0 {
			err = fmt.Errorf("%w (code %d): %s", errPack, code, core.Untrusted(said.String()).Quote())
		}
		out.Close() //nolint:errcheck // always nil
		ended <- err
	}()
	sum := sha256.New()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) }) //nolint:errcheck // always nil
	defer stop()
	err = rules.Read(in, len(c.Sources), s.limit, func(e rules.Entry, content io.Reader) error { return p.add(root, e, content, sum) })
	p.hash = hex.EncodeToString(sum.Sum(nil))
	if err == nil { // an archive is padded; who sends more than that is cut off
		_, _ = io.CopyN(io.Discard, in, 1<<20)
	}
	in.CloseWithError(errors.New("the host has enough")) //nolint:errcheck // always nil
	if err != nil {
		cancel()
	}
	if told := <-ended; err == nil || errors.Is(told, errPack) {
		return told
	}
	return err
}

func (p *pulled) add(root *os.Root, e rules.Entry, content io.Reader, sum hash.Hash) error {
	fmt.Fprintf(sum, "%q %t %t %d\n", e.Path, e.Folder, e.Executable, e.Size)
	p.entries = append(p.entries, e)
	p.bytes += e.Size
	if e.Folder {
		return root.Mkdir(e.Path, 0o700)
	}
	f, err := root.OpenFile(e.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, e.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(io.MultiWriter(f, sum), content)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: the box stopped in the middle", rules.ErrBadArchive)
	}
	return errors.Join(err, f.Close())
}

// keep gives what was pulled the name of its request. The same copy that waits
// already is the one that counts.
func (s *spools) keep(boxID string, p *pulled, key string) error {
	at := s.path(boxID, key)
	err := os.Rename(p.dir, at)
	if _, there := os.Lstat(at); err != nil && there == nil {
		now := time.Now()
		err = os.Chtimes(at, now, now)
		return errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}

// sweepAll sweeps all boxes when the relay starts: nothing is being pulled.
func (s *spools) sweepAll() error {
	boxes, err := os.ReadDir(filepath.Dir(s.home.Box("any")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, box := range boxes {
		err = errors.Join(err, s.sweep(box.Name(), true))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sweep removes what was pulled for questions that have ended by now, and what
// is one too many for the next. Parts are a pull that was cut.
func (s *spools) sweep(boxID string, starting bool) error {
	all, err := os.ReadDir(s.inbox(boxID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	type spool struct {
		name string
		at   time.Time
	}
	var left []spool
	for _, e := range all {
		info, err := e.Info()
		if err != nil {
			continue // done in this moment
		}
		part := strings.HasSuffix(e.Name(), partial)
		if age := time.Since(info.ModTime()); age > s.kept || part && (starting || age > copyTimeout*2) {
			if err := os.RemoveAll(s.path(boxID, e.Name())); err != nil {
				return err
			}
		} else if !part {
			left = append(left, spool{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(left, func(a, b spool) int { return b.at.Compare(a.at) })
	for i := maxSpools - 1; i < len(left); i++ {
		if err := os.RemoveAll(s.path(boxID, left[i].name)); err != nil {
			return err
		}
	}
	return nil
}

// Package setup is the box's end of the stream by which the host fills it (see
// core/setup): the relay's address, the repositories, git's configuration, and
// the word to process 1.
//
// Invariants:
//   - The word is given last, so that the daemon never sees half a box.
//   - Each file is replaced as a whole, and the token lies in a 0600 file on a
//     tmpfs alone.
//   - It may run again: a stream without repositories, as after a stop, leaves
//     those of the box and their configuration as they are.
package setup

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
	stream "github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/ctl/control"
	"github.com/madarco/agentbox/ctl/initd"
	"github.com/madarco/agentbox/ctl/landing"
	"github.com/madarco/agentbox/ctl/relayenv"
)

const (
	// wordTime bounds the wait for process 1, upTime that for the daemon.
	wordTime, upTime = 10 * time.Second, 15 * time.Second
	// pingPause is the wait between two looks whether the daemon is up.
	pingPause = 2 * time.Millisecond
)

// Options say where things lie in the box.
type Options struct {
	RelayEnv string
	StateDir string
	Word     string
	Socket   string
	// MakeRepo makes one repository and reads exactly its sections from r.
	MakeRepo func(ctx context.Context, repo stream.Repo, r io.Reader) error
	// Fill writes the files of a project without a repository, whose section
	// it reads from r.
	Fill func(dir core.BoxPath, r io.Reader) error
}

// Run fills the box from the stream. When it returns without an error the box
// is ready, its daemon included if the header lets it go.
func Run(ctx context.Context, in io.Reader, o Options) error {
	header, err := stream.ReadHeader(in)
	if err != nil {
		return err
	}
	if err := relayenv.Write(o.RelayEnv, header.RelayEnv); err != nil {
		return err
	}
	if header.Folder {
		if err := o.Fill(core.WorkspacePath, in); err != nil {
			return err
		}
	}
	if len(header.Repos) > 0 {
		if err := makeRepos(ctx, in, header.Repos, o); err != nil {
			return err
		}
	}
	if !header.Go {
		return nil
	}
	return launch(ctx, o)
}

func makeRepos(ctx context.Context, in io.Reader, repos []stream.Repo, o Options) error {
	config, err := gitConfig(repos)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(o.StateDir, "gitconfig"), []byte(config), 0o644); err != nil {
		return err
	}
	var watched []landing.Repo
	for _, repo := range repos {
		if err := o.MakeRepo(ctx, repo, in); err != nil {
			return err
		}
		watched = append(watched, landing.FromSetup(repo))
	}
	return landing.WriteList(o.StateDir, watched)
}

// launch gives process 1 the word and waits until the daemon answers.
func launch(ctx context.Context, o Options) error {
	telling, cancel := context.WithTimeout(ctx, wordTime)
	defer cancel()
	if err := initd.Tell(telling, o.Word); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, upTime)
	defer cancel()
	tick := time.NewTicker(pingPause)
	defer tick.Stop()
	for {
		err := control.Call(waiting, o.Socket, control.Request{Op: control.Ping}, nil)
		if err == nil {
			return nil
		}
		select {
		case <-waiting.Done():
			return fmt.Errorf("wait for the box's daemon: %w; its words are in the box's log", err)
		case <-tick.C:
		}
	}
}

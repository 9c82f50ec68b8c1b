package workspace

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/gitgate"
)

// What the box knows of the relay; see package setup.
const (
	envURL   = "AGENTBOX_RELAY_URL"
	envToken = "AGENTBOX_RELAY_TOKEN" //nolint:gosec // a name, not a token
	envHost  = "AGENTBOX_HOST_RELAY_URL"
	envID    = "AGENTBOX_BOX_ID"
	envName  = "AGENTBOX_BOX_NAME"
)

// Where a box finds what the host mounts into it.
const (
	boxSocket = "/run/agentbox/relay/relay.sock"
	boxSeeds  = "/run/agentbox/seed"
)

// Step shows a part of the work: the returned function ends it.
type Step = func(name string) (done func(error))

// Project is the user's project while a box of it is created.
type Project struct {
	git     *gitgate.Host
	root    string
	repo    *gitgate.Repository
	capture gitgate.CaptureOptions

	// What Prepare found for one box.
	carry  *gitgate.Carry
	filled setup.Repo
}

// Open opens the project at root, after Guard. Include names untracked files
// that go into the box although they look secret. Nothing is written.
func Open(ctx context.Context, git *gitgate.Host, home core.Home, root string, include []string) (*Project, error) {
	userHome, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("find your home folder: %w", err)
	}
	if err := Guard(root, userHome, home); err != nil {
		return nil, err
	}
	repo, err := git.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	if err := Guard(repo.WorkTree, userHome, home); err != nil {
		return nil, err
	}
	return &Project{git: git, root: root, repo: repo, capture: gitgate.CaptureOptions{Include: include}}, nil
}

// Root is the project's root.
func (p *Project) Root() string { return p.root }

// Folder is the name of the project's folder, from which a box's name derives.
func (p *Project) Folder() string { return filepath.Base(p.root) }

// BranchTaken tells whether the user has this branch; see gitgate.
func (p *Project) BranchTaken(ctx context.Context, branch core.BranchName) (bool, error) {
	return p.git.BranchTaken(ctx, p.repo, branch)
}

// Repos are the records of the project's repositories.
func (p *Project) Repos(branch core.BranchName) []core.Repo {
	return []core.Repo{p.repo.Record(branch)}
}

// Seeds brings the seed store up to date and returns the folders of objects
// that a box reads, by repository key.
func (p *Project) Seeds(ctx context.Context, step Step) (map[string]string, error) {
	done := step("seed")
	err := p.git.RefreshSeed(ctx, p.repo)
	done(err)
	return map[string]string{p.repo.Key: p.git.SeedObjects(p.repo.Key)}, err
}

// Prepare makes the box's gate and takes the uncommitted work of the user.
func (p *Project) Prepare(ctx context.Context, box core.Box, step Step) error {
	record, ok := box.Root()
	if !ok {
		return fmt.Errorf("prepare box %s: it has no repository", box.Name)
	}
	done := step("read the work tree")
	err := p.read(ctx, box, record)
	done(err)
	return err
}

func (p *Project) read(ctx context.Context, box core.Box, record core.Repo) error {
	both, parallel := errgroup.WithContext(ctx)
	both.Go(func() error {
		_, err := p.git.Gate(parallel, box, record)
		return err
	})
	both.Go(func() (err error) {
		if p.carry, err = p.git.Capture(parallel, p.repo, p.capture); err != nil {
			return err
		}
		p.filled, err = p.git.SetupRepo(parallel, p.repo, record, p.carry, gitgate.Place{
			Endpoint:   "http://" + wire.BoxRelayAddr + "/git/" + record.Key,
			Alternates: boxSeeds + "/" + record.Key + "/objects",
		})
		return err
	})
	return both.Wait()
}

// Notes say, for people, what Prepare took of the uncommitted work and what
// stays on the host.
func (p *Project) Notes() []string {
	if p.carry == nil {
		return nil
	}
	var parts, notes []string
	for _, n := range []struct {
		count int
		what  string
	}{
		{p.carry.Staged, "staged"},
		{p.carry.Unstaged, "unstaged"},
		{p.carry.Deleted, "deleted"},
		{p.carry.Untracked, "untracked"},
		{p.carry.Conflicts, "in conflict"},
	} {
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	if len(parts) > 0 {
		notes = append(notes, "uncommitted work that the box got: "+strings.Join(parts, ", "))
	}
	for _, l := range p.carry.LeftOut {
		notes = append(notes, fmt.Sprintf("left out: %s (%s); --include it if the box shall have it", l.Path.Quote(), l.Reason))
	}
	return append(notes, p.carry.Notes...)
}

// Setup fills the box with what Prepare found.
func (p *Project) Setup(box core.Box, token string) provider.Setup {
	return func(ctx context.Context, w io.Writer) error {
		h := header(box, token)
		h.Repos = []setup.Repo{p.filled}
		if err := setup.WriteHeader(w, h); err != nil {
			return err
		}
		return p.carry.WriteSections(ctx, w)
	}
}

// Restart hands a box that was filled before a new token.
func Restart(box core.Box, token string) provider.Setup {
	return func(_ context.Context, w io.Writer) error {
		return setup.WriteHeader(w, header(box, token))
	}
}

func header(box core.Box, token string) setup.Header {
	return setup.Header{
		BoxID: box.ID, BoxName: box.Name, Go: true,
		RelayEnv: map[string]string{
			envURL:   "http://" + wire.BoxRelayAddr,
			envToken: token,
			envHost:  "unix://" + boxSocket,
			envID:    box.ID,
			envName:  string(box.Name),
		},
	}
}

package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

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

// Options are what the user chose for a box.
type Options struct {
	// Include names untracked files that go into the box although they look
	// secret, by path in the project.
	Include []string
	// From is a branch, a tag or a commit that the project's own repository
	// starts at, instead of HEAD with the uncommitted work.
	From string
}

// Project is the user's project while a box of it is created.
type Project struct {
	git  *gitgate.Host
	root string
	// parts are its repositories, the project's own first if it has one.
	parts []*part
	// folder: the project is in no repository.
	folder  bool
	capture gitgate.CaptureOptions
	notes   []string

	// files are what Prepare took of a project in no repository.
	files *gitgate.Carry
}

// part is one repository of the project.
type part struct {
	repo *gitgate.Repository
	kind string
	// path is where it lies in the project, "" for the project's own.
	path string
	// nested are the paths in it of other parts.
	nested []string

	// What Prepare found for one box.
	carry  *gitgate.Carry
	filled setup.Repo
}

// ErrNoRepository: the project is a plain directory, and something was asked
// that only a repository has.
var ErrNoRepository = errors.New("the project is in no git repository")

// Open opens the project at root, after Guard, with the repositories below it.
// Nothing is written.
func Open(ctx context.Context, git *gitgate.Host, home core.Home, root string, o Options) (*Project, error) {
	userHome, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("find your home folder: %w", err)
	}
	if err := Guard(root, userHome, home); err != nil {
		return nil, err
	}
	p := &Project{git: git, root: root, capture: gitgate.CaptureOptions{Include: o.Include}}
	repo, err := git.Open(ctx, root)
	switch {
	case errors.Is(err, gitgate.ErrNotRepository) && o.From != "":
		return nil, fmt.Errorf("start at %q: %w", o.From, ErrNoRepository)
	case errors.Is(err, gitgate.ErrNotRepository):
		p.folder = true
		return p, p.findNested(ctx, nil)
	case err != nil:
		return nil, err
	}
	if err := Guard(repo.WorkTree, userHome, home); err != nil {
		return nil, err
	}
	if o.From != "" {
		if err := git.StartAt(ctx, repo, o.From); err != nil {
			return nil, err
		}
	}
	p.parts = []*part{{repo: repo, kind: "root"}}
	return p, p.findNested(ctx, p.parts[0])
}

// Root is the project's root.
func (p *Project) Root() string { return p.root }

// Folder is the name of the project's folder, from which a box's name derives.
func (p *Project) Folder() string { return filepath.Base(p.root) }

// BranchTaken tells whether a repository of the project has this branch; see
// gitgate.
func (p *Project) BranchTaken(ctx context.Context, branch core.BranchName) (bool, error) {
	for _, part := range p.parts {
		taken, err := p.git.BranchTaken(ctx, part.repo, branch)
		if err != nil {
			return false, fmt.Errorf("look at %s: %w", part.repo.WorkTree, err)
		}
		if taken {
			return true, nil
		}
	}
	return false, nil
}

// Repos are the records of the project's repositories.
func (p *Project) Repos(branch core.BranchName) []core.Repo {
	var out []core.Repo
	for _, part := range p.parts {
		record := part.repo.Record(branch)
		record.Kind = part.kind
		if part.path != "" {
			record.BoxPath = core.WorkspacePath + core.BoxPath("/"+part.path)
		}
		out = append(out, record)
	}
	return out
}

// Seeds brings the seed stores up to date and returns the folders of objects
// that a box reads, by repository key.
func (p *Project) Seeds(ctx context.Context, step Step) (map[string]string, error) {
	if len(p.parts) == 0 {
		return nil, nil
	}
	done := step("read the history")
	folders := map[string]string{}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.NumCPU())
	for _, part := range p.parts {
		folders[part.repo.Key] = p.git.SeedObjects(part.repo.Key)
		all.Go(func() error { return p.git.RefreshSeed(ctx, part.repo) })
	}
	err := all.Wait()
	done(err)
	return folders, err
}

// Prepare makes the box's gates and takes the uncommitted work of the user.
func (p *Project) Prepare(ctx context.Context, box core.Box, step Step) error {
	done := step("read the work tree")
	err := p.read(ctx, box)
	done(err)
	return err
}

func (p *Project) read(ctx context.Context, box core.Box) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(max(2, runtime.NumCPU()))
	if p.folder {
		all.Go(func() (err error) {
			opts := p.capture
			opts.Nested = p.nestedIn("")
			opts.Include = includedIn("", opts.Include, opts.Nested)
			p.files, err = p.git.CaptureFolder(ctx, p.root, opts)
			return err
		})
	}
	for _, part := range p.parts {
		record, ok := box.Repo(part.repo.Key)
		if !ok {
			return fmt.Errorf("prepare box %s: its record lacks the repository at %s", box.Name, part.repo.WorkTree)
		}
		all.Go(func() error {
			_, err := p.git.Gate(ctx, box, record)
			return err
		})
		all.Go(func() error { return p.take(ctx, part, record) })
	}
	return all.Wait()
}

// take captures one repository.
func (p *Project) take(ctx context.Context, part *part, record core.Repo) (err error) {
	opts := p.capture
	opts.Include, opts.Nested = includedIn(part.path, opts.Include, part.nested), part.nested
	if part.carry, err = p.git.Capture(ctx, part.repo, opts); err != nil {
		return err
	}
	part.filled, err = p.git.SetupRepo(ctx, part.repo, record, part.carry, gitgate.Place{
		Endpoint:   "http://" + wire.BoxRelayAddr + "/git/" + record.Key,
		Alternates: boxSeeds + "/" + record.Key + "/objects",
	})
	return err
}

// Setup fills the box with what Prepare found.
func (p *Project) Setup(box core.Box, token string) provider.Setup {
	return func(ctx context.Context, w io.Writer) error {
		h := header(box, token)
		h.Folder = p.folder
		for _, part := range p.parts {
			h.Repos = append(h.Repos, part.filled)
		}
		if err := setup.WriteHeader(w, h); err != nil {
			return err
		}
		if p.folder {
			if err := p.files.WriteFolder(w); err != nil {
				return err
			}
		}
		for _, part := range p.parts {
			if err := part.carry.WriteSections(ctx, w); err != nil {
				return err
			}
		}
		return nil
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

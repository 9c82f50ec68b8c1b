package gitgate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
)

// Errors of Open that callers branch on.
var (
	// ErrNotRepository: the folder lies in no git repository.
	ErrNotRepository = errors.New("not a git repository")
	// ErrBare: the repository has no work tree.
	ErrBare = errors.New("a bare repository has no files to work on; run this in a clone of it")
	// ErrUnborn: there is no commit to start from.
	ErrUnborn = errors.New("the repository has no commit yet; make one first, for example with: git commit --allow-empty -m start")
	// ErrNotOwner: the repository belongs to another user of this machine.
	ErrNotOwner = errors.New("the repository belongs to another user; run this as its owner")
	// ErrBroken: the folder has a .git that leads to no repository.
	ErrBroken = errors.New("its .git leads to no repository")
	// ErrUnsafeFolder: the project is a folder that no box may get.
	ErrUnsafeFolder = errors.New("this folder can't be a project")
)

// Repository is one of the user's repositories, as it was when it was opened.
type Repository struct {
	// Key identifies the repository; see core.Repo.Key.
	Key string
	// GitDir is the work tree's own; CommonDir is shared with other work trees
	// of the repository. Both and WorkTree are real paths.
	GitDir, CommonDir, WorkTree string
	// Linked: the work tree is not the repository's main one.
	Linked bool
	// ObjectFormat is "sha1" or "sha256".
	ObjectFormat string
	// Branch is what HEAD is on, empty when detached; Head is the commit.
	Branch string
	Head   core.ObjectID
	// Shallow are the boundary commits of a shallow clone.
	Shallow []core.ObjectID
	// Partial: objects may be missing on purpose (a partial clone).
	Partial bool
	// Remote is the push remote, empty without one; URL is its address without
	// user information; DefaultBranch is its HEAD as far as known.
	Remote        core.RemoteName
	URL           string
	DefaultBranch core.BranchName

	owner account
	id    string
	// filters are the names of the filter drivers that are configured.
	filters []string
	// config are all settings in the repository, in git's order.
	config [][2]string
	// from is what the user chose to start at instead of HEAD and the work
	// tree, empty without a choice.
	from string
	// visible are the remote's branches and tags that every box may see.
	visible []ref
}

// ref is a ref of the user's repository by the name it has on the remote.
type ref struct {
	name   string // refs/heads/… or refs/tags/…
	oid    core.ObjectID
	peeled core.ObjectID
}

// commit is what the ref leads to.
func (r ref) commit() core.ObjectID {
	if r.peeled != "" {
		return r.peeled
	}
	return r.oid
}

// Record is the repository's part of a box record; the caller adds Kind and
// BoxPath where they differ from the root's.
func (r *Repository) Record(branch core.BranchName) core.Repo {
	base, err := core.ParseBranchName(r.Branch)
	if err != nil {
		base = "" // works like a detached HEAD
	}
	return core.Repo{
		Key: r.Key, Kind: "root", CommonDir: r.CommonDir, WorkTree: r.WorkTree, BoxPath: core.WorkspacePath,
		Branch: branch, BaseBranch: base, BaseOID: r.Head,
		Remote: r.Remote, RemoteURL: r.URL, DefaultBranch: r.DefaultBranch, ObjectFormat: r.ObjectFormat,
	}
}

// Open looks at the repository that dir lies in, and writes nothing.
func (h *Host) Open(ctx context.Context, dir string) (*Repository, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, fmt.Errorf("open the project: %w", err)
	}
	st, err := os.Stat(real)
	if err != nil {
		return nil, fmt.Errorf("open the project: %w", err)
	}
	owner, ok := accountOf(st)
	if !ok {
		return nil, fmt.Errorf("open %s: %w", real, ErrNotOwner)
	}
	repo := &Repository{owner: owner}
	for _, step := range []func(context.Context, string, *Repository) error{h.locate, h.guard, h.settings, h.refs} {
		err := step(ctx, real, repo)
		if errors.Is(err, ErrNotRepository) {
			if _, none := os.Lstat(filepath.Join(real, ".git")); none == nil {
				err = ErrBroken
			}
		}
		if err != nil {
			return nil, fmt.Errorf("open the repository at %s: %w", real, err)
		}
	}
	return repo, nil
}

// theirs is a command in the user's repository, run as its owner. Filters are
// programs of the repository's configuration, so none runs: that of git-lfs is
// done in the box, of any other the stored form is carried.
func (h *Host) theirs(r *Repository, args ...string) command {
	config := noExecution
	for _, name := range r.filters {
		for _, setting := range []string{".clean=", ".smudge=", ".process=", ".required=false"} {
			config = append(config[:len(config):len(config)], "filter."+name+setting)
		}
	}
	env := r.owner.environment()
	if r.Partial { // a git that does not know of GIT_NO_LAZY_FETCH, before 2.45, has no way to fetch
		env = append(env, "GIT_ALLOW_PROTOCOL=none")
	}
	return command{
		gitDir: r.GitDir, workDir: r.WorkTree, args: args, config: config,
		env: env, as: r.owner.as, deadline: quick,
	}
}

// locate finds the repository's folders, what HEAD is and where the history
// ends. It asks git once: a box is made while somebody waits, and each start of
// a process takes longer than what it tells.
func (h *Host) locate(ctx context.Context, dir string, r *Repository) error {
	cmd := command{
		workDir: dir, config: noExecution, env: r.owner.environment(), as: r.owner.as, deadline: quick,
		args: []string{"rev-parse", "--is-bare-repository", "--show-object-format", "--absolute-git-dir", "--git-common-dir", "--show-toplevel", "HEAD^{commit}", "--symbolic-full-name", "HEAD", "--"},
	}
	out, err := h.run.run(ctx, cmd)
	if err != nil {
		return notRepository(err)
	}
	f := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(f) != 8 {
		return fmt.Errorf("%w: a path with a line break", ErrUnsafeFolder)
	}
	if f[0] == "true" {
		return ErrBare
	}
	r.ObjectFormat, r.GitDir, r.WorkTree = f[1], f[2], f[4]
	if r.Head, err = core.ParseObjectID(f[5]); err != nil {
		return err
	}
	if f[6] != "HEAD" { // else detached
		r.Branch = strings.TrimPrefix(f[6], "refs/heads/")
	}
	common := f[3]
	if !filepath.IsAbs(common) {
		common = filepath.Join(dir, common)
	}
	for path, to := range map[string]*string{r.GitDir: &r.GitDir, common: &r.CommonDir, r.WorkTree: &r.WorkTree} {
		if *to, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	r.Linked = r.GitDir != r.CommonDir
	sum := sha256.Sum256([]byte(r.CommonDir))
	r.Key = hex.EncodeToString(sum[:8])
	r.Shallow, err = shallowOf(r.CommonDir)
	return err
}

// notRepository tells git's one exit code for "none here" and "nothing here yet" apart by its words:
// LC_ALL is C.
func notRepository(err error) error {
	var g *gitError
	if errors.As(err, &g) {
		switch text := string(g.stderr); {
		case strings.Contains(text, "not a git repository"):
			return ErrNotRepository
		case strings.Contains(text, "cannot use bare repository"), strings.Contains(text, "must be run in a work tree"):
			return ErrBare
		case strings.Contains(text, "dubious ownership"):
			return ErrNotOwner
		case strings.Contains(text, "bad revision 'HEAD"):
			return ErrUnborn
		}
	}
	return err
}

// guard refuses folders whose content is not a project: whoever gives a box
// the home folder gives it everything.
func (h *Host) guard(_ context.Context, _ string, r *Repository) error {
	for _, dir := range []string{r.owner.home, string(h.home)} {
		if real, err := filepath.EvalSymlinks(dir); err == nil && within(r.WorkTree, real) {
			return fmt.Errorf("%w: it holds %s; use a folder of its own", ErrUnsafeFolder, real)
		}
	}
	if within(r.WorkTree, h.run.git) {
		return fmt.Errorf("%w: the git program %s lies in it", ErrUnsafeFolder, h.run.git)
	}
	st, err := os.Stat(r.CommonDir)
	if err != nil {
		return err
	}
	if owner, ok := accountOf(st); !ok || owner.uid != r.owner.uid {
		return ErrNotOwner
	}
	r.id, err = identity(r.CommonDir)
	return err
}

// shallowOf reads the boundary commits of a repository, none if it is whole.
func shallowOf(gitDir string) ([]core.ObjectID, error) {
	text, err := os.ReadFile(filepath.Join(gitDir, "shallow"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var out []core.ObjectID
	for line := range strings.Lines(string(text)) {
		oid, err := core.ParseObjectID(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("read the shallow boundary: %w", err)
		}
		out = append(out, oid)
	}
	return out, nil
}

// refs lists what every box of the project may see: the push remote's branches
// but those of boxes, and the tags that they reach. It notes what the remote's
// HEAD is.
func (h *Host) refs(ctx context.Context, _ string, r *Repository) error {
	if r.Remote == "" {
		return nil
	}
	prefix := "refs/remotes/" + string(r.Remote) + "/"
	out, err := h.run.run(ctx, h.theirs(r, "for-each-ref", "--format=%(objectname) %(*objectname) %(objecttype)%(*objecttype) %(symref) %(refname)", "refs/tags", prefix))
	if err != nil {
		return err
	}
	var tags []ref
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 5)
		if len(f) != 5 {
			continue
		}
		if branch, ok := strings.CutPrefix(f[4], prefix); ok {
			if f[3] != "" { // the remote's HEAD
				if head, err := core.ParseBranchName(strings.TrimPrefix(f[3], prefix)); err == nil && branch == "HEAD" {
					r.DefaultBranch = head
				}
				continue
			}
			if _, err := core.ParseBranchName(branch); err == nil && !strings.HasPrefix(branch, core.BranchPrefix) {
				r.visible = append(r.visible, ref{name: "refs/heads/" + branch, oid: core.ObjectID(f[0])})
			}
			continue
		}
		tag := ref{name: f[4], oid: core.ObjectID(f[0]), peeled: core.ObjectID(f[1])}
		if _, err := core.ParseTagName(strings.TrimPrefix(tag.name, "refs/tags/")); err == nil && (f[2] == "commit" || f[2] == "tagcommit") {
			tags = append(tags, tag)
		}
	}
	hidden, err := h.beyond(ctx, h.theirs(r), commits(tags), commits(r.visible))
	if err != nil {
		return err
	}
	for _, tag := range tags {
		if !hidden[tag.commit()] {
			r.visible = append(r.visible, tag)
		}
	}
	return nil
}

func commits(refs []ref) []core.ObjectID {
	var out []core.ObjectID
	for _, r := range refs {
		out = append(out, r.commit())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/setup"
)

// ErrExists: the folder holds a repository already.
var ErrExists = errors.New("a repository is there already")

// Build makes one repository at its BoxPath. stream stands at the repository's
// first section and is read to the end of the last.
func Build(ctx context.Context, repo setup.Repo, stream io.Reader) error {
	b := &builder{repo: repo, dir: string(repo.BoxPath)}
	b.git = filepath.Join(b.dir, ".git")
	if _, err := os.Lstat(b.git); err == nil {
		return fmt.Errorf("make the repository at %s: %w", b.dir, ErrExists)
	}
	pack := func(ctx context.Context) error { return b.unpack(ctx, setup.NewSection(stream)) }
	index := func(ctx context.Context) error { return b.index(ctx, setup.NewSection(stream)) }
	files := func(ctx context.Context) error { return b.files(ctx, setup.NewSection(stream)) }
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"start the repository", b.start},
		{"take in its objects", pack},
		{"set the branch", b.branch},
		{"fill the index", index},
		{"check the files out", b.checkout},
		{"carry the changed files over", files},
		{"settle the index", b.settle},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("make the repository at %s: %s: %w", b.dir, step.name, explain(b.dir, err))
		}
	}
	return nil
}

// Fill writes the files of a project that is in no repository. stream stands at
// their section, which is read to its end.
func Fill(dir core.BoxPath, stream io.Reader) error {
	fill := func() error {
		if err := os.MkdirAll(string(dir), 0o755); err != nil { //nolint:gosec // a work tree
			return err
		}
		root, err := os.OpenRoot(string(dir))
		if err != nil {
			return err
		}
		defer root.Close() //nolint:errcheck // only a handle
		_, err = extract(root, setup.NewSection(stream))
		return err
	}
	if err := fill(); err != nil {
		return fmt.Errorf("fill %s: %w", dir, explain(string(dir), err))
	}
	return nil
}

type builder struct {
	repo     setup.Repo
	dir, git string
}

// run starts git in the repository and returns what it prints.
func (b *builder) run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // the host's words, and this is the box
	cmd.Dir = b.dir
	cmd.Stdin = stdin
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_LITERAL_PATHSPECS=1",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_NO_LAZY_FETCH=1",
		"GIT_COMMITTER_NAME=agentbox", "GIT_COMMITTER_EMAIL=box@agentbox.invalid",
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		for len(args) > 2 && args[0] == "-c" {
			args = args[2:]
		}
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out.String(), nil
}

// start makes the repository without a commit: refs, configuration, borders.
func (b *builder) start(ctx context.Context) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil { //nolint:gosec // a work tree
		return err
	}
	branch := "--initial-branch=" + string(b.repo.Branch)
	if _, err := b.run(ctx, nil, "-c", "init.defaultRefFormat=files", "init", "-q", "--template=", branch, "--object-format="+b.repo.ObjectFormat); err != nil {
		return err
	}
	texts := map[string]string{"packed-refs": packedRefs(b.repo.Refs)}
	if b.repo.Alternates != "" {
		texts["objects/info/alternates"] = b.repo.Alternates + "\n"
	}
	for _, id := range b.repo.Shallow {
		texts["shallow"] += string(id) + "\n"
	}
	for name, target := range b.repo.Symrefs {
		texts[name] = "ref: " + target + "\n"
	}
	for name, text := range b.repo.Info {
		texts["info/"+name] = text
	}
	for name, text := range b.repo.PseudoRefs {
		texts[name] = text
	}
	root, err := os.OpenRoot(b.git)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only a handle
	for name, text := range texts {
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return b.configure(root)
}

func (b *builder) configure(root *os.Root) error {
	f, err := root.OpenFile("config", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	text := repoConfig(b.repo)
	if b.repo.Info[setup.UserAttributes] != "" {
		var c config
		c.entry("core.attributesFile", filepath.Join(b.git, "info", setup.UserAttributes))
		text += c.String()
	}
	if b.repo.LFS {
		self, lost := os.Executable()
		if lost != nil {
			return errors.Join(lost, f.Close())
		}
		text += lfsConfig(self, filepath.Join(b.git, "lfs"))
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// packedRefs writes the file that gitrepository-layout(5) names, in the order
// and with the peeled lines that its header promises.
func packedRefs(refs []setup.Ref) string {
	sorted := slices.SortedFunc(slices.Values(refs), func(a, b setup.Ref) int { return strings.Compare(a.Name, b.Name) })
	var out strings.Builder
	out.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, r := range sorted {
		fmt.Fprintf(&out, "%s %s\n", r.OID, r.Name)
		if r.Peeled != "" {
			fmt.Fprintf(&out, "^%s\n", r.Peeled)
		}
	}
	return out.String()
}

// unpack stores the objects that are in no seed.
func (b *builder) unpack(ctx context.Context, pack io.Reader) error {
	in := bufio.NewReader(pack)
	if _, err := in.Peek(1); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	_, err := b.run(ctx, in, "index-pack", "--stdin")
	return err
}

func (b *builder) branch(ctx context.Context) error {
	_, err := b.run(ctx, nil, "update-ref", "-m", "agentbox: start at "+b.repo.BaseOID.Short(), "HEAD", string(b.repo.BaseOID))
	return err
}

// index fills the index with the user's entries, or HEAD's.
func (b *builder) index(ctx context.Context, entries io.Reader) error {
	args := []string{"update-index", "-z", "--index-info"}
	if !b.repo.HasIndex {
		if _, err := io.Copy(io.Discard, entries); err != nil {
			return err
		}
		args = []string{"read-tree", "HEAD"}
	}
	if _, err := b.run(ctx, entries, args...); err != nil {
		return err
	}
	// Before the checkout, or the files would appear.
	return b.flag(ctx, "--skip-worktree", b.repo.SkipWorktree)
}

// flag sets an index flag on paths.
func (b *builder) flag(ctx context.Context, flag string, paths [][]byte) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := b.run(ctx, nulTerminated(paths), "update-index", flag, "-z", "--stdin")
	return err
}

func nulTerminated(paths [][]byte) io.Reader {
	if len(paths) == 0 {
		return strings.NewReader("")
	}
	return bytes.NewReader(append(bytes.Join(paths, []byte{0}), 0))
}

// checkout writes the index's files, several at a time: most blobs are deltas,
// and unpacking those is what takes the time.
func (b *builder) checkout(ctx context.Context) error {
	which, list, err := b.present(ctx)
	if err != nil {
		return err
	}
	_, err = b.run(
		ctx, list,
		append([]string{
			"-c", fmt.Sprintf("checkout.workers=%d", max(2, runtime.NumCPU())), "-c", "checkout.thresholdForParallelism=100", "-c", "core.fsync=none",
			"-c", "filter.lfs.smudge=", "-c", "filter.lfs.required=false", // no content is here yet
			"checkout-index", "-f", "-q", "-u",
		}, which...)...,
	)
	return err
}

// present says to checkout-index which files are to be there. Told to take all,
// a git before 2.34 takes those under skip-worktree too.
func (b *builder) present(ctx context.Context) (which []string, list io.Reader, err error) {
	if len(b.repo.SkipWorktree) == 0 {
		return []string{"-a"}, nil, nil
	}
	out, err := b.run(ctx, nil, "ls-files", "-t", "-z")
	if err != nil {
		return nil, nil, err
	}
	var names [][]byte
	for line := range strings.SplitSeq(out, "\x00") {
		if name, ok := strings.CutPrefix(line, "H "); ok { // neither skipped nor in conflict
			names = append(names, []byte(name))
		}
	}
	return []string{"-z", "--stdin"}, nulTerminated(names), nil
}

// settle restores what can only be set once the files are there. Git has their
// times from the checkout; to look at them again would only read every file once
// more, as they are no older than the index.
func (b *builder) settle(ctx context.Context) error {
	if err := b.flag(ctx, "--skip-worktree", b.repo.SkipWorktree); err != nil {
		return err
	}
	return b.flag(ctx, "--assume-unchanged", b.repo.AssumeUnchanged)
}

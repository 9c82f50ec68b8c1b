package oddrepos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/ctl/lfs"
	boxside "github.com/madarco/agentbox/ctl/workspace"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/sandbox-core/workspace"
)

// TestMain is also the program that a box's git runs for git-lfs.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "lfs" {
		filter := lfs.Smudge
		if os.Args[2] == "clean" {
			filter = lfs.Clean
		}
		if err := filter(os.Args[3], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOddRepositories(t *testing.T) {
	for _, git := range gits(t) {
		t.Run(git.suite, func(t *testing.T) {
			t.Setenv("PATH", git.folder+":"+os.Getenv("PATH"))
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", "")
			t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			userConfig(t, home)
			for _, c := range cases {
				if c.newest && git.suite != "sid" || c.once && git.suite != thisMachine {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t)
				})
			}
		})
	}
}

const thisMachine = "this machine"

// program is a git: the one of this machine, or one that scripts/gits unpacked.
type program struct{ suite, folder string }

func gits(t *testing.T) []program {
	t.Helper()
	all := []program{{thisMachine, filepath.Dir(must(exec.LookPath("git")))}}
	out, err := exec.CommandContext(t.Context(), "../../scripts/gits").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if os.Getenv("CI") != "" {
			t.Fatalf("scripts/gits: %s", exit.Stderr)
		}
		t.Logf("only the git of this machine: scripts/gits: %s", exit.Stderr)
		return all
	} else if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		suite, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, program{suite, folder})
	}
	return all
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// userConfig is what many users have for all repositories; their git-lfs can't
// be reached.
func userConfig(t *testing.T, home string) {
	t.Helper()
	for name, text := range map[string]string{
		".gitconfig": `[safe]
	directory = *
[filter "lfs"]
	clean = git-lfs clean -- %f
	smudge = git-lfs smudge -- %f
	required = true
`,
		".config/git/ignore":     "*.globally-ignored\n",
		".config/git/attributes": "*.user-crlf text eol=crlf\n",
	} {
		path := filepath.Join(home, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
	}
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (c odd) run(t *testing.T) {
	if strings.Contains(c.script, "chown") && os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	top := t.TempDir()
	dir, project := filepath.Join(top, "user"), filepath.Join(top, "user", "repo")
	if c.project != "" {
		project = filepath.Join(dir, c.project)
	}
	check(t, os.Mkdir(dir, 0o755))
	c.build(t, dir)
	before := files(t, dir, nil)
	box, err := c.create(t.Context(), top, project)
	if same := compare(before, files(t, dir, nil)); same != "" {
		t.Errorf("what is the user's changed:\n%s", same)
	}
	if c.refused != nil {
		if !errors.Is(err, c.refused) {
			t.Errorf("%s: the create says %v, want %v", c.proves, err, c.refused)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", c.proves, err)
	}
	box.verify(t, c)
}

// build makes what the case is about in an empty folder.
func (c odd) build(t *testing.T, dir string) {
	t.Helper()
	script := exec.CommandContext(t.Context(), "sh", "-euc", prelude+c.script)
	script.Dir, script.Env = dir, append(os.Environ(), "D="+dir, "GIT_ALLOW_PROTOCOL=file")
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("the script: %v\n%s", err, out)
	}
}

// made is a box's work tree and what it was made from.
type made struct {
	root  string // where the box's /workspace is
	user  string // the user's side of it
	repos []setup.Repo
	notes string
}

// create captures the project with the host's code and rebuilds it with the
// box's, in a folder of the test's.
func (c odd) create(ctx context.Context, top, project string) (made, error) {
	m := made{root: filepath.Join(top, "box"), user: project}
	home := core.Home(filepath.Join(top, "state"))
	if err := home.Create(); err != nil {
		return m, err
	}
	host, err := gitgate.New(home, gitgate.Options{})
	if err != nil {
		return m, err
	}
	p, err := workspace.Open(ctx, host, home, project, workspace.Options{Include: c.include, From: c.from})
	if err != nil {
		return m, err
	}
	if _, err := p.BranchTaken(ctx, "agentbox/odd"); err != nil {
		return m, err
	}
	quiet := func(string) func(error) { return func(error) {} }
	box := core.Box{ID: "b00000001", Name: "odd", Repos: p.Repos("agentbox/odd")}
	if _, err := p.Seeds(ctx, quiet); err != nil {
		return m, err
	}
	if err := p.Prepare(ctx, box, quiet); err != nil {
		return m, err
	}
	var stream bytes.Buffer
	if err := p.Setup(box, "token")(ctx, &stream); err != nil {
		return m, err
	}
	m.notes = strings.Join(p.Notes(), "\n")
	header, err := setup.ReadHeader(&stream)
	if err != nil {
		return m, err
	}
	at := func(p core.BoxPath) core.BoxPath {
		return core.BoxPath(m.root + strings.TrimPrefix(string(p), string(core.WorkspacePath)))
	}
	if header.Folder {
		if err := boxside.Fill(core.BoxPath(m.root), &stream); err != nil {
			return m, err
		}
	}
	for _, repo := range header.Repos {
		if repo.Kind == "root" {
			m.user = repo.WorkTree
		}
		repo.BoxPath, repo.Alternates = at(repo.BoxPath), host.SeedObjects(repo.Key)
		if err := boxside.Build(ctx, repo, &stream); err != nil {
			return m, err
		}
		m.repos = append(m.repos, repo)
	}
	if stream.Len() > 0 {
		return m, fmt.Errorf("%d bytes of the stream were left", stream.Len())
	}
	return m, nil
}

// verify compares what git and the file system say on both sides, and that one
// can work in the box.
func (m made) verify(t *testing.T, c odd) {
	t.Helper()
	for _, note := range c.notes {
		if !strings.Contains(m.notes, note) {
			t.Errorf("the user is not told of %q:\n%s", note, m.notes)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(m.user), "ran")); err == nil {
		t.Error("a program of the user's ran on the host")
	}
	if !c.differs {
		if diff := compare(files(t, m.user, c.leftOut), files(t, m.root, nil)); diff != "" {
			t.Errorf("%s: files differ (-user +box):\n%s", c.proves, diff)
		}
	}
	for _, repo := range m.repos {
		user, box := repo.WorkTree, string(repo.BoxPath)
		for _, args := range [][]string{
			{"status", "--porcelain=v2", "-uall", "-z"},
			{"ls-files", "-s", "-v", "-z"},
			{"rev-parse", "HEAD", "HEAD^{tree}"},
		} {
			want, got := lines(git(t, user, args...)), lines(git(t, box, args...))
			want = slices.DeleteFunc(want, func(line string) bool {
				name, untracked := strings.CutPrefix(line, "? ")
				return untracked && slices.Contains(c.leftOut, strings.TrimPrefix(filepath.Join(user, name)+slash(name), m.user+"/"))
			})
			if diff := compareLines(want, got); diff != "" && !(c.differs && repo.Kind == "root") {
				t.Errorf("%s: git %s in %s differs (-user +box):\n%s", c.proves, args[0], repo.BoxPath, diff)
			}
		}
		if c.differs && repo.Kind == "root" {
			if got := strings.TrimSpace(git(t, box, "rev-parse", "HEAD")) + git(t, box, "diff", "HEAD", "--stat"); got != strings.TrimSpace(git(t, user, "rev-parse", c.from+"^{commit}")) {
				t.Errorf("%s: the box is at %s", c.proves, got)
			}
		}
		m.work(t, repo, box)
	}
}

// work makes a commit in the box, as an agent would.
func (m made) work(t *testing.T, repo setup.Repo, box string) {
	t.Helper()
	for _, absent := range []string{"private", "stash"} {
		if out, err := try(t, box, "rev-parse", "-q", "--verify", absent); err == nil {
			t.Errorf("the user's %s is in the box: %s", absent, out)
		}
	}
	if strings.Contains(git(t, box, "ls-files", "-u"), "\t") {
		return // nothing can be committed on top of a conflict
	}
	check(t, os.WriteFile(filepath.Join(box, "work of the agent"), nil, 0o600))
	git(t, box, "add", "work of the agent")
	git(t, box, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "work", "--", "work of the agent")
	if got := strings.TrimSpace(git(t, box, "symbolic-ref", "HEAD")); got != repo.Branch.Ref() {
		t.Errorf("the box is on %s", got)
	}
	if !strings.Contains(m.notes, "partial clone") {
		git(t, box, "fsck", "--connectivity-only", "--no-dangling")
	}
}

// slash is the end of a path of git's that filepath.Join cleans away.
func slash(name string) string {
	if strings.HasSuffix(name, "/") {
		return "/"
	}
	return ""
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := try(t, dir, args...)
	if err != nil {
		t.Fatalf("git %q in %s: %v\n%s", args, dir, err, out)
	}
	return out
}

// try runs git as the user of a folder does, in the box with the configuration
// of the repository alone.
func try(t *testing.T, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE=/nonexistent/grafts", "LC_ALL=C")
	if strings.Contains(dir, "/box") {
		cmd.Env = append(cmd.Env, "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null")
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return errOut.String(), err
	}
	return out.String(), nil
}

func lines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == 0 })
}

// files describes every file below dir but those left out; those of a box's or
// user's .git count only where dir holds the user's whole folder.
func files(t *testing.T, dir string, leftOut []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	inside := filepath.Base(dir) == "user"
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(path, dir+"/")
		if !inside && d.Name() == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if slices.Contains(leftOut, rel) || d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			out[rel] = "-> " + target
			return err
		}
		data, err := os.ReadFile(path)
		out[rel] = fmt.Sprintf("%v %x", info.Mode()&0o100 != 0, sha256.Sum256(data))
		return err
	}))
	return out
}

func compare(want, got map[string]string) string {
	var out strings.Builder
	for name, w := range want {
		if g, ok := got[name]; !ok {
			fmt.Fprintf(&out, "- %q\n", name)
		} else if g != w {
			fmt.Fprintf(&out, "  %q: %s, %s\n", name, w, g)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			fmt.Fprintf(&out, "+ %q\n", name)
		}
	}
	return out.String()
}

func compareLines(want, got []string) string {
	var out strings.Builder
	for _, line := range want {
		if !slices.Contains(got, line) {
			fmt.Fprintf(&out, "- %q\n", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			fmt.Fprintf(&out, "+ %q\n", line)
		}
	}
	return out.String()
}

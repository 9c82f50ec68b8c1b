package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sample is a workspace of two published modules and one that nobody names.
func sample() map[string]string {
	return map[string]string{
		"go.work":          "go 1.26.0\n\nuse (\n\t./app\n\t./base\n\t./inner\n)\n\nreplace (\n\texample.org/p/app v0.3.0 => ./app\n\texample.org/p/base v0.1.0 => ./base\n)\n",
		".gitignore":       "/base/built\n",
		"base/go.mod":      "module example.org/p/base\n\ngo 1.26.0\n",
		"base/base.go":     "package base\n\nimport _ \"embed\"\n\n//go:embed data.txt\nvar Word string\n",
		"base/data.txt":    "tree",
		"base/LICENSE":     "licence",
		"base/built":       "ignored by git",
		"app/go.mod":       "module example.org/p/app\n\ngo 1.26.0\n\nrequire example.org/p/base v0.1.0\n",
		"app/cmd/hi/hi.go": "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.org/p/base\"\n)\n\nfunc main() { fmt.Print(base.Word) }\n",
		"app/LICENSE":      "licence",
		"inner/go.mod":     "module example.org/p/inner\n\ngo 1.26.0\n",
	}
}

// workspaceOf writes the files as a git repository.
func workspaceOf(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, files)
	git(t, root, "init", "-q", "-b", "main")
	return root
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	command(t, dir, nil, "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
}

func commit(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "state")
}

func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.Bytes())
	}
	return string(out)
}

// runs packs and returns what was printed.
func runs(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(args, &out); err != nil {
		t.Fatalf("modproxy %q: %v", args, err)
	}
	return out.String()
}

// install is what a stranger does who knows nothing but the proxy.
func install(t *testing.T, proxy, target string) string {
	t.Helper()
	dir := t.TempDir()
	command(t, dir, []string{
		"GOWORK=off", "GOBIN=" + dir, "GOPROXY=file://" + proxy, "GONOSUMDB=example.org/*",
		"GOMODCACHE=" + filepath.Join(dir, "cache"), "GOFLAGS=-modcacherw -trimpath", "GOTOOLCHAIN=local",
	}, "go", "install", target)
	return command(t, dir, nil, filepath.Join(dir, "hi"))
}

func TestAStrangerInstallsFromTheProxy(t *testing.T) {
	root, proxy := workspaceOf(t, sample()), t.TempDir()
	runs(t, "-root", root, "-out", proxy)
	if got := install(t, proxy, "example.org/p/app/cmd/hi@v0.3.0"); got != "tree" {
		t.Errorf("the installed program printed %q, want %q", got, "tree")
	}
	if _, err := os.Stat(filepath.Join(proxy, "example.org/p/inner")); !os.IsNotExist(err) {
		t.Errorf("a module without a version was packed: %v", err)
	}
	zip, err := os.ReadFile(filepath.Join(proxy, "example.org/p/base/@v/v0.1.0.zip"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(zip, []byte("v0.1.0/built")) {
		t.Error("a file that git ignores was packed")
	}
}

func TestATaggedVersionComesFromItsTag(t *testing.T) {
	root, proxy := workspaceOf(t, sample()), t.TempDir()
	commit(t, root)
	git(t, root, "tag", "base/v0.1.0")
	write(t, root, map[string]string{"base/data.txt": "later"})
	runs(t, "-root", root, "-out", proxy)
	if got := install(t, proxy, "example.org/p/app/cmd/hi@v0.3.0"); got != "tree" {
		t.Errorf("the program has %q of its sibling, want what the tag holds", got)
	}
}

func TestHeadIsPackedInsteadOfTheTree(t *testing.T) {
	root, proxy := workspaceOf(t, sample()), t.TempDir()
	commit(t, root)
	write(t, root, map[string]string{"base/data.txt": "not committed"})
	runs(t, "-root", root, "-out", proxy, "-vcs")
	if got := install(t, proxy, "example.org/p/app/cmd/hi@v0.3.0"); got != "tree" {
		t.Errorf("the program has %q of its sibling, want what HEAD holds", got)
	}
}

func TestARelease(t *testing.T) {
	root := workspaceOf(t, sample())
	third := "golang.org/x/mod v0.43.0 h1:MFuq5J6s35W9D3IjkwyWc9vHh0nENOrt5K8Iof4ofmg=\n"
	write(t, root, map[string]string{"app/go.sum": third})
	runs(t, "-root", root, "-write-sums")
	sums := filepath.Join(root, "app/go.sum")
	written, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"example.org/p/base v0.1.0 h1:", "example.org/p/base v0.1.0/go.mod h1:", third} {
		if !strings.Contains(string(written), want) {
			t.Errorf("go.sum lacks %q:\n%s", want, written)
		}
	}
	commit(t, root)
	tree, head := t.TempDir(), t.TempDir()
	runs(t, "-root", root, "-out", head, "-vcs")
	if err := run([]string{"-root", root, "-out", tree}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "names a sibling") {
		t.Errorf("packing the tree with a sibling's sum: %v, want a refusal", err)
	}
	env := []string{"GOWORK=off", "GOPROXY=file://" + head, "GONOSUMDB=example.org/*", "GOFLAGS=-mod=readonly -modcacherw", "GOMODCACHE=" + t.TempDir(), "GOTOOLCHAIN=local"}
	command(t, filepath.Join(root, "app"), env, "go", "build", "-o", os.DevNull, "./...")

	runs(t, "-root", root, "-strip-sums", "-out", tree)
	if stripped, err := os.ReadFile(sums); err != nil || string(stripped) != third {
		t.Errorf("after -strip-sums go.sum is %q, %v; want %q", stripped, err, third)
	}
	const zip = "example.org/p/base/@v/v0.1.0.zip"
	a, _ := os.ReadFile(filepath.Join(head, zip))
	b, _ := os.ReadFile(filepath.Join(tree, zip))
	if len(a) == 0 || !bytes.Equal(a, b) {
		t.Error("the tree and HEAD give different zips of the same content")
	}
}

func TestSumsThatDoNotFitAreRefused(t *testing.T) {
	files := sample()
	files["app/go.sum"] = "example.org/p/base v0.1.0 h1:MFuq5J6s35W9D3IjkwyWc9vHh0nENOrt5K8Iof4ofmg=\n"
	root := workspaceOf(t, files)
	commit(t, root)
	err := run([]string{"-root", root, "-out", t.TempDir(), "-vcs"}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "not the sum of what is packed") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestWorkspacesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"a replace directive in a go.mod": {
			map[string]string{"app/go.mod": "module example.org/p/app\n\ngo 1.26.0\n\nreplace example.org/p/base => ../base\n"},
			"replace directive",
		},
		"a cycle": {
			map[string]string{"base/go.mod": "module example.org/p/base\n\ngo 1.26.0\n\nrequire example.org/p/app v0.3.0\n"},
			"in a circle: app → base → app",
		},
		"a version that go.work does not replace": {
			map[string]string{"app/go.mod": "module example.org/p/app\n\ngo 1.26.0\n\nrequire example.org/p/base v0.2.0\n"},
			"no replace line",
		},
		"a replace line to another folder": {
			map[string]string{"go.work": "go 1.26.0\n\nuse (\n\t./app\n\t./base\n)\n\nreplace example.org/p/base v0.1.0 => ./app\n"},
			"instead of ./base",
		},
		"a module outside the workspace": {
			map[string]string{"go.work": "go 1.26.0\n\nuse ../elsewhere\n"},
			"outside the workspace",
		},
		"a malformed go.sum": {
			map[string]string{"app/go.sum": "example.org/p/base v0.1.0\n"},
			"malformed line",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := sample()
			maps.Copy(files, c.change)
			err := run([]string{"-root", workspaceOf(t, files), "-out", t.TempDir()}, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestALinkInAModuleIsRefused(t *testing.T) {
	root := workspaceOf(t, sample())
	if err := os.Symlink("data.txt", filepath.Join(root, "base/link")); err != nil {
		t.Fatal(err)
	}
	err := run([]string{"-root", root, "-out", t.TempDir()}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestWorkLinesFollowTheGoModFiles(t *testing.T) {
	files := sample()
	files["app/go.mod"] = "module example.org/p/app\n\ngo 1.26.0\n\nrequire example.org/p/base v0.2.0\n"
	root := workspaceOf(t, files)
	got := strings.Split(strings.TrimSpace(runs(t, "-root", root, "-write-work", "-versions")), "\n")
	want := []string{"base example.org/p/base v0.2.0", "app example.org/p/app v0.3.0"}
	if !slices.Equal(got, want) {
		t.Errorf("versions are %q, want %q", got, want)
	}
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(work, []byte("v0.1.0")) || !bytes.Contains(work, []byte("example.org/p/base v0.2.0 => ./base")) {
		t.Errorf("go.work is\n%s", work)
	}
}

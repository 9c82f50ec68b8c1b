package importrules

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the lists from what the workspace imports")

func TestTheWorkspaceKeepsTheRules(t *testing.T) {
	graph, err := Load(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	uses, err := Programs(graph)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range append(Check(graph), CheckGit(graph, uses)...) {
		t.Error(broken)
	}
	compareLists(t, "lists", Lists(graph, uses))
}

// compareLists holds the files below dir against what they should be.
func compareLists(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if *update {
		rewrite(t, dir, want)
	}
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		got[strings.TrimPrefix(filepath.ToSlash(name), dir+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		for _, line := range missing(want[name], got[name]) {
			t.Errorf("%s/%s lacks %q; if it is meant, run go test ./tools/importrules -update", dir, name, line)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		for _, line := range missing(got[name], want[name]) {
			t.Errorf("%s/%s has %q, which is gone; run go test ./tools/importrules -update", dir, name, line)
		}
	}
}

func missing(from, in string) []string {
	have := strings.Split(in, "\n")
	return slices.DeleteFunc(strings.Split(from, "\n"), func(line string) bool {
		return line == "" || slices.Contains(have, line)
	})
}

func rewrite(t *testing.T, dir string, lists map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range lists {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// graphOf makes a graph of packages of ours, each with its imports.
func graphOf(imports map[string][]string) Graph {
	g := Graph{}
	for path, to := range imports {
		module, _, _ := strings.Cut(path, "/")
		g[path] = &Package{Path: path, Module: module, Imports: to}
	}
	return g
}

func TestBrokenRulesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		imports map[string][]string
		want    string
	}{
		"a sibling that the table does not allow": {
			map[string][]string{"relay/server": {"ctl"}, "ctl": nil},
			"relay/server imports ctl: module relay may not use ctl",
		},
		"a module without a row": {
			map[string][]string{"extra": nil},
			"module extra has no row",
		},
		"the checks' own code in a product": {
			map[string][]string{"cli": {"tools/bench"}, "tools/bench": nil},
			"cli imports tools/bench",
		},
		"the engine in another cloud's package": {
			map[string][]string{"sandbox-cloud/hetzner": {"sandbox-docker/engine"}, "sandbox-docker/engine": nil},
			"sandbox-cloud/hetzner imports sandbox-docker/engine",
		},
		"a library in the wrong place": {
			map[string][]string{"relay/server": {"modernc.org/sqlite"}},
			"only relay/store/sqlite may",
		},
		"a socket in the vocabulary": {
			map[string][]string{"core/wire": {"net"}},
			"module core starts no process and opens no socket",
		},
		"host git in the plane, far down": {
			map[string][]string{"controlplane/server": {"relay/server"}, "relay/server": {"relay/gitgate"}, "relay/gitgate": nil},
			"controlplane must not contain relay/gitgate (controlplane/server → relay/server → relay/gitgate)",
		},
		"a program started in the plane": {
			map[string][]string{"controlplane/server": {"relay/tool"}, "relay/tool": {"os/exec"}},
			"controlplane must not contain relay/tool, which starts programs",
		},
		"a circle of modules by way of different packages": {
			map[string][]string{"relay/a": {"integrations"}, "integrations": {"relay/b"}, "relay/b": nil},
			"module relay depends on itself",
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := Check(graphOf(c.imports))
			if !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("found %q, want one with %q", found, c.want)
			}
		})
	}
}

func TestWhatTheTableAllows(t *testing.T) {
	g := graphOf(map[string][]string{
		"core":                       {"github.com/dlclark/regexp2"},
		"relay/store/sqlite":         {"modernc.org/sqlite", "core"},
		"relay/gitgate":              {"os/exec"},
		"sandbox-cloud/remotedocker": {"sandbox-docker/engine"},
		"sandbox-docker/engine":      {"github.com/moby/moby/client"},
		"cli/cmd/agentbox":           {"relay/gitgate", "sandbox-docker/engine", "sandbox-cloud/remotedocker"},
		"e2e":                        {"cli/cmd/agentbox", "tools"},
		"tools":                      nil,
	})
	if found := Check(g); len(found) > 0 {
		t.Errorf("found %q", found)
	}
}

func TestTestsAreHeldToTheTable(t *testing.T) {
	g := graphOf(map[string][]string{"relay": nil, "sandbox-docker": nil})
	g["relay"].TestImports = []string{"sandbox-docker"}
	if found := Check(g); len(found) != 1 || !strings.Contains(found[0], "may not use sandbox-docker") {
		t.Errorf("found %q", found)
	}
}

func TestGitIsFoundHoweverItIsNamed(t *testing.T) {
	for name, body := range map[string]string{
		"a literal":           `exec.Command("git", "status")`,
		"with a context":      `exec.CommandContext(nil, "git")`,
		"a path":              `exec.Command("/usr/bin/git")`,
		"a search":            `exec.LookPath("git")`,
		"a constant":          `exec.Command(program)`,
		"a variable":          "name := \"git\"\n_ = exec.Command(name)",
		"a command's fields":  `_ = exec.Cmd{Path: "git"}`,
		"a process of the os": `os.StartProcess("/bin/git", nil, nil)`,
	} {
		t.Run(name, func(t *testing.T) {
			source := "package server\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n)\n\nconst program = \"git\"\n\nvar _ = os.Args\n\nfunc f() {\n\t" + body + "\n}\n"
			g := graphOf(map[string][]string{"relay/server": {"os/exec"}, gitOnly: {"os/exec"}, "ctl/workspace": {"os/exec"}})
			file := filepath.Join(t.TempDir(), "server.go")
			if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, p := range g {
				p.Files = []string{file}
			}
			uses, err := Programs(g)
			if err != nil {
				t.Fatal(err)
			}
			found := CheckGit(g, uses)
			if len(found) != 1 || !strings.Contains(found[0], "of git in relay/server") {
				t.Errorf("found %q, want the one in relay/server", found)
			}
		})
	}
}

func TestOtherProgramsAreNoGit(t *testing.T) {
	g := graphOf(map[string][]string{"cli": {"os/exec"}})
	file := filepath.Join(t.TempDir(), "cli.go")
	source := "package cli\n\nimport run \"os/exec\"\n\nvar words = []string{\"git\"}\n\nfunc f() { run.Command(\"docker\", \"git-lfs\") }\n"
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	g["cli"].Files = []string{file}
	uses, err := Programs(g)
	if err != nil {
		t.Fatal(err)
	}
	if found := CheckGit(g, uses); len(found) > 0 || len(uses) != 1 {
		t.Errorf("found %q in %v", found, uses)
	}
}

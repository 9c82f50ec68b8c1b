package redlist_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/redlist"
)

func TestWhatEachClassNames(t *testing.T) {
	t.Parallel()
	for class, names := range map[redlist.Class][]string{
		redlist.AgentConfig:   {"CLAUDE.md", "AGENTS.md", "a/b/GEMINI.md", ".claude/settings.json", "pkg/.claude/commands/x.md", ".codex/config.toml", ".opencode/plugin/a.ts", "opencode.json", ".mcp.json", ".cursor/rules/a.mdc", ".cursorrules", ".github/copilot-instructions.md", ".github/hooks/a.json", "agentbox.yaml"},
		redlist.Hook:          {".husky/pre-commit", ".githooks/post-checkout", "tools/git-hooks/x", "lefthook.yml", ".lefthook.toml", ".pre-commit-config.yaml", ".lintstagedrc.json", "lint-staged.config.mjs"},
		redlist.Workflow:      {".github/workflows/ci.yml", ".github/actions/x/action.yml", ".gitlab-ci.yml", "ci/deploy.gitlab-ci.yml", ".gitlab/ci/a.yml", ".circleci/config.yml", "Jenkinsfile", "azure-pipelines-nightly.yml", ".drone.star"},
		redlist.GitConfig:     {".gitattributes", "src/.gitattributes", ".lfsconfig", ".gitconfig", ".git/config", "sub/.git/hooks/post-checkout"},
		redlist.Submodule:     {".gitmodules"},
		redlist.ShellConfig:   {".envrc", "web/.envrc", ".env", "mise.toml", ".config/mise/config.toml", ".config/fish/conf.d/a.fish", ".tool-versions", ".zshrc", ".ssh/config", "flake.nix"},
		redlist.EditorTask:    {".vscode/tasks.json", ".vscode/launch.json", ".vscode/settings.json", "app.code-workspace", ".idea/runConfigurations/x.xml", "a.iml", ".devcontainer/devcontainer.json", ".devcontainer.json", ".exrc", ".dir-locals.el", "eslint.config.js", ".zed/tasks.json"},
		redlist.PackageScript: {"package.json", "web/package.json", "package-lock.json", ".npmrc", ".yarn/releases/yarn.cjs", ".yarnrc.yml", "setup.py", "pyproject.toml", "build.rs", ".cargo/config.toml", "build.gradle.kts", "gradle/wrapper/gradle-wrapper.jar", "Gemfile", "x.gemspec", "App.csproj", "Directory.Build.targets"},
	} {
		for _, name := range names {
			if got := redlist.Match(name); !slices.Contains(got, class) {
				t.Errorf("%s: classes %v; want %s among them", name, got, class)
			}
		}
	}
}

// TestLookAlikes: who is warned of every file heeds no warning.
func TestLookAlikes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "/", "README.md", "main.go", "src/claude.go", "CLAUDE.md.txt", "docs/CLAUDE-md", "myclaude.md", "claude/settings.json", "codex/a",
		"hooks/useState.ts", "husky/a", "src/hooks/pre-commit", "github/workflows/ci.yml", ".github/ISSUE_TEMPLATE/bug.md", ".github/CODEOWNERS",
		"workflows/ci.yml", ".github-workflows", "x.github/workflows/a.yml", "vscode/tasks.json", "tasks.json", "settings.json", "idea/x",
		"mypackage.json", "package.json.bak", "package.jso", "a/package.json/x", "setup.pyc", "npmrc", "gitmodules", ".gitignore", ".gitmodules.d/x", ".gitkeep",
		".environment", ".env.example", "envrc", "Makefile", "Dockerfile", "docker-compose.yml", "conftest.py", "go.mod", "gradle/libs.toml", "wrapper/x",
		"config/mise/config.txt", ".eslintignore", "lefthook", "csproj", "\u03c0ackage.json", "pack\u0430ge.json",
	} {
		if got := redlist.Match(name); len(got) > 0 {
			t.Errorf("%q hits %v", name, got)
		}
	}
}

// TestSpellings: what some file system takes for the name is the name.
func TestSpellings(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]redlist.Class{
		"claude.MD":                      redlist.AgentConfig,
		".GitHub/WorkFlows/CI.yml":       redlist.Workflow,
		".hu\u017fky/pre-commit":         redlist.Hook, // long s
		".hus\u212ay/pre-commit":         redlist.Hook, // Kelvin sign
		".lint\ufb06agedrc":              redlist.Hook, // ligature st
		".lint\ufb05agedrc":              redlist.Hook, // ligature long s and t
		".pre-commit-con\ufb01g.yaml":    redlist.Hook, // ligature fi
		"\ufb02ake.nix":                  redlist.ShellConfig,
		".v\u200cscode/tasks.json":       redlist.EditorTask,
		"\ufeff.envrc":                   redlist.ShellConfig,
		".envrc.":                        redlist.ShellConfig,
		".envrc . .":                     redlist.ShellConfig,
		".vscode /tasks.json":            redlist.EditorTask,
		`a\.vscode\tasks.json`:           redlist.EditorTask,
		"package.json::$DATA":            redlist.PackageScript,
		"./.claude//settings.local.json": redlist.AgentConfig,
		".vscode":                        redlist.EditorTask, // a link, perhaps
		"PACKAGE\u00ad.json":             redlist.PackageScript,
	} {
		if got := redlist.Match(name); !slices.Contains(got, class) {
			t.Errorf("%q: classes %v; want %s", name, got, class)
		}
	}
}

func TestKindsAndNamesHitTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change redlist.Change
		want   []redlist.Class
	}{
		{redlist.Change{Path: "a"}, nil},
		{redlist.Change{Path: "a", Link: true}, []redlist.Class{redlist.Link}},
		{redlist.Change{Path: "a", Executable: true, Large: true}, []redlist.Class{redlist.Executable, redlist.LargeFile}},
		{redlist.Change{Path: "a", Submodule: true}, []redlist.Class{redlist.Submodule}},
		{redlist.Change{Path: ".gitmodules", Submodule: true}, []redlist.Class{redlist.Submodule}},
		{redlist.Change{Path: ".husky/pre-push", Executable: true}, []redlist.Class{redlist.Hook, redlist.Executable}},
		{redlist.Change{Path: ".github/workflows/CLAUDE.md", Link: true}, []redlist.Class{redlist.AgentConfig, redlist.Workflow, redlist.Link}},
	} {
		if got := c.change.Classes(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v; want %v", c.change, got, c.want)
		}
	}
}

// TestNoClassHidesAnother, and what is kept of each is bounded and does not
// depend on the order of the changes.
func TestNoClassHidesAnother(t *testing.T) {
	t.Parallel()
	var l redlist.List
	for i := range 1000 {
		l.Add(redlist.Change{Path: fmt.Sprintf("bin/%04d", 999-i), Executable: true})
	}
	l.Add(redlist.Change{Path: strings.Repeat("a/", 1000) + ".envrc"})
	got := l.Groups()
	if len(got) != 2 || got[0].Class != redlist.ShellConfig || got[1].Class != redlist.Executable {
		t.Fatalf("groups %+v", got)
	}
	if n := len(got[0].Paths[0]); got[0].Count != 1 || n != redlist.MaxPathBytes {
		t.Errorf("%d bytes of a path are kept: %+v", n, got[0])
	}
	want := []core.Untrusted{"bin/0000", "bin/0001", "bin/0002", "bin/0003", "bin/0004"}
	if got[1].Count != 1000 || !slices.Equal(got[1].Paths, want) {
		t.Errorf("%+v", got[1])
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	var a, b redlist.List
	for i := range 8 {
		a.Add(redlist.Change{Path: fmt.Sprintf("a%d", i), Executable: true})
	}
	b.Add(redlist.Change{Path: "a00", Executable: true})
	b.Add(redlist.Change{Path: "CLAUDE.md"})
	first := a.Groups()
	got := redlist.Merge(first, b.Groups())
	if len(got) != 2 || got[0].Class != redlist.AgentConfig || got[1].Count != 8 || len(got[1].Paths) != redlist.MaxPaths || got[1].Paths[1] != "a00" {
		t.Errorf("%+v", got)
	}
	if first[0].Paths[1] != "a1" {
		t.Errorf("the first list has changed: %+v", first)
	}
	if got := redlist.Merge(nil, nil); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestEveryClassHasWordsOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range []redlist.Class{
		redlist.AgentConfig, redlist.Hook, redlist.Workflow, redlist.GitConfig, redlist.Submodule, redlist.ShellConfig,
		redlist.EditorTask, redlist.PackageScript, redlist.Link, redlist.Executable, redlist.LargeFile,
	} {
		if c.What() == string(c) || seen[c.What()] {
			t.Errorf("%s is called %q", c, c.What())
		}
		seen[c.What()] = true
	}
	if redlist.Class("later").What() != "later" {
		t.Error("a class of a later version has no word")
	}
}

func FuzzMatch(f *testing.F) {
	f.Add(".github/workflows/ci.yml", uint8(0))
	f.Add(".hu\u017fky\\.envrc. :x", uint8(3))
	f.Add("a\xff/\u200d", uint8(1))
	f.Fuzz(func(t *testing.T, name string, above uint8) {
		got := redlist.Match(name)
		for i, c := range got {
			if c.What() == string(c) || slices.Contains(got[:i], c) {
				t.Fatalf("%q: classes %v", name, got)
			}
		}
		deeper := strings.Repeat("x/", int(above)) + name
		if below := redlist.Match(deeper); !slices.Equal(got, below) {
			t.Fatalf("%q hits %v, and in a folder %v", name, got, below)
		}
		upper := strings.Map(func(r rune) rune {
			if r <= unicode.MaxASCII {
				return unicode.ToUpper(r)
			}
			return r
		}, name)
		if other := redlist.Match(upper); !slices.Equal(got, other) {
			t.Fatalf("%q hits %v, and in capitals %v", name, got, other)
		}
		if other := redlist.Match(name + ". ."); !slices.Equal(got, other) {
			t.Fatalf("%q hits %v, and with dots behind it %v", name, got, other)
		}
	})
}

// BenchmarkMatch is what one changed path costs.
func BenchmarkMatch(b *testing.B) {
	for b.Loop() {
		redlist.Match("packages/web/src/components/Button.tsx")
	}
}

package redlist

import (
	"cmp"
	"slices"
)

// Class names a kind of danger; it is stable, for policies and programs.
type Class string

// The classes, in the order in which they are told of.
const (
	AgentConfig   Class = "agent-config"
	Hook          Class = "hook"
	Workflow      Class = "workflow"
	GitConfig     Class = "git-config"
	Submodule     Class = "submodule"
	ShellConfig   Class = "shell-config"
	EditorTask    Class = "editor-task"
	PackageScript Class = "package-script"
	Link          Class = "link"
	Executable    Class = "executable"
	LargeFile     Class = "large-file"
)

// row is one class of the table: its words, and the names that it lists. A name
// stands for a file in any folder; with a slash in it, for the end of a path; with
// one at its end, for a folder, all that lies in it, and a link or file of that
// name, which may become one. A name of files may hold one *. All are in lower case.
type row struct {
	class Class
	what  string // completes "changes …"
	names []string
}

// table is the red list. The kinds without names are told by what a file is.
var table = [...]row{
	// Agents obey these, and start the servers, hooks and tools that they name,
	// some before they ask.
	{AgentConfig, "instructions, tools or settings of coding agents", []string{
		"agents.md", "agents.override.md", "agents.local.md", "agent.md", ".agents/", ".agent/", ".rules",
		"agentbox.yaml", "agentbox.yml", ".agentbox/",
		".mcp.json", "mcp.json", "mcp_config.json",
		"claude.md", "claude.local.md", ".claude/", ".claude.json", ".claude-plugin/",
		".codex/", "codex.md", "opencode.json", "opencode.jsonc", ".opencode/",
		".cursor/", ".cursorrules", ".windsurf/", ".windsurfrules", ".codeium/",
		"gemini.md", ".gemini/", "qwen.md", ".qwen/", ".aider.conf.yml", ".aider.conf.yaml", ".aider/",
		".cline/", ".clinerules/", ".roo/", ".roomodes", ".roorules", ".kilocode/", ".kilocodemodes",
		".continue/", ".continuerc.json", ".amazonq/", ".kiro/", ".junie/", ".augment/", ".augment-guidelines",
		".goose/", ".goosehints", ".factory/", ".crush/", ".crush.json", "crush.json", "crush.md", ".trae/", ".openhands/", "warp.md",
		".github/copilot-instructions.md", ".github/instructions/", ".github/prompts/", ".github/chatmodes/",
		".github/agents/", ".github/skills/", ".github/hooks/",
	}},
	// Folders that core.hooksPath is often set to, and what hook managers run at
	// the next commit, checkout or merge.
	{Hook, "git hooks", []string{
		".githooks/", ".git-hooks/", "githooks/", "git-hooks/", ".husky/", ".huskyrc", ".huskyrc.*",
		"lefthook.*", ".lefthook.*", "lefthook-local.*", ".lefthook-local.*", ".lefthook/", ".lefthook-local/",
		".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml", "prek.toml",
		".overcommit.yml", ".overcommit/", "captainhook.json", "grumphp.yml", "grumphp.yml.dist", "hk.pkl",
		".simple-git-hooks.*", "simple-git-hooks.*", ".lintstagedrc", ".lintstagedrc.*", "lint-staged.config.*",
		".commitlintrc", ".commitlintrc.*", "commitlint.config.*",
	}},
	// What a forge or a host of builds runs at the next push, with its secrets.
	{Workflow, "CI workflows", []string{
		".github/workflows/", ".github/actions/", "action.yml", "action.yaml", ".gitea/", ".forgejo/",
		".gitlab-ci.yml", ".gitlab-ci.yaml", "*.gitlab-ci.yml", ".gitlab/", ".circleci/", ".travis.yml",
		"azure-pipelines*.yml", "azure-pipelines*.yaml", ".azure-pipelines/", ".azuredevops/",
		"jenkinsfile", "jenkinsfile.*", "*.jenkinsfile", "bitbucket-pipelines.yml", ".drone.*", ".woodpecker.*", ".woodpecker/",
		".buildkite/", ".cirrus.*", "appveyor.yml", ".appveyor.yml", ".semaphore/", ".teamcity/", ".tekton/", ".harness/",
		".build.yml", ".builds/", "buildspec.yml", "buildspec.yaml", "cloudbuild.yml", "cloudbuild.yaml",
		"codemagic.yaml", "bitrise.yml", "netlify.toml", "vercel.json", ".readthedocs.yml", ".readthedocs.yaml",
	}},
	// Filters, merge drivers, where git-lfs asks with which credentials.
	{GitConfig, "settings that git or git-lfs reads from the tree", []string{
		".git/", ".gitattributes", ".gitconfig", ".lfsconfig", ".config/git/",
	}},
	{Submodule, "submodules", []string{".gitmodules"}},
	// Shells, and what hangs in their prompts, read these on entering a folder or
	// at their next start.
	{ShellConfig, "what a shell or its tools run by themselves", []string{
		".envrc", ".env", ".env.local", ".autoenv", ".autoenv.zsh", "mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml",
		".mise/", "mise/config.toml", ".config/mise/", ".tool-versions", ".rtx.toml", "devbox.json", "devenv.nix", "devenv.yaml", "flake.nix", "shell.nix",
		".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".inputrc",
		".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".config/fish/", ".kshrc", ".cshrc", ".tcshrc", ".tmux.conf",
		".ssh/", ".gdbinit", ".lldbinit", "sitecustomize.py", "usercustomize.py",
	}},
	// Editors run these when the folder is opened, or their language servers do.
	{EditorTask, "editors' tasks and settings", []string{
		".vscode/", "*.code-workspace", ".idea/", "*.iml", ".fleet/", ".zed/", ".vs/", ".helix/", ".theia/",
		".devcontainer/", ".devcontainer.json", ".gitpod.yml", ".gitpod.dockerfile", ".replit",
		".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".local.vimrc", ".vim/", ".nvim/", ".dir-locals.el", ".dir-locals-2.el",
		"*.sublime-project", ".externaltoolbuilders/", "project.pbxproj", "*.xcscheme", ".swiftpm/",
		".eslintrc", ".eslintrc.*", "eslint.config.*", ".prettierrc", ".prettierrc.*", "prettier.config.*", "stylelint.config.*", ".stylelintrc.*",
	}},
	// What an install, a build or the sync of an editor runs unseen: manifests that
	// are code or name scripts, files that choose the registry or the program, and
	// locks of the managers whose packages run scripts at installation.
	{PackageScript, "what package managers run", []string{
		"package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb",
		".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/", ".pnpmfile.*", "pnpm-workspace.yaml", "bunfig.toml", "deno.json", "deno.jsonc",
		"setup.py", "setup.cfg", "pyproject.toml", "pip.conf", "pip.ini", "uv.toml", "*.pth",
		"build.rs", ".cargo/", "rust-toolchain", "rust-toolchain.toml",
		"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "init.gradle", "gradle.properties", "gradlew", "gradlew.bat", "gradle/wrapper/",
		".mvn/", "mvnw", "mvnw.cmd", "pom.xml", "build.sbt", "build.xml",
		"gemfile", "gems.rb", "*.gemspec", ".bundle/", "extconf.rb", "composer.json", "podfile", "*.podspec", "package.swift", "mix.exs", "rebar.config",
		"*.csproj", "*.fsproj", "*.vbproj", "*.vcxproj", "directory.build.props", "directory.build.targets", "nuget.config", ".bazelrc", "module.bazel",
	}},
	{Link, "links", nil},
	{Executable, "newly executable files", nil},
	{LargeFile, "large files", nil},
}

// What says in words of ours what a class is; it completes "changes …".
func (c Class) What() string {
	if at := c.order(); at < len(table) {
		return table[at].what
	}
	return string(c)
}

func (c Class) order() int {
	if at := slices.IndexFunc(table[:], func(r row) bool { return r.class == c }); at >= 0 {
		return at
	}
	return len(table)
}

func byOrder(a, b Class) int { return cmp.Compare(a.order(), b.order()) }

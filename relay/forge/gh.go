package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/hostexec"
	"github.com/madarco/agentbox/relay/proc"
)

const (
	program        = "gh"
	versionTimeout = 10 * time.Second
	authTimeout    = 15 * time.Second
	probeKept      = time.Minute
	// exitAuth is gh's own for a login that is missing (gh help exit-codes).
	exitAuth = 4
	// maxAnswer bounds an answer that is read here, in bytes.
	maxAnswer = 4 << 20
)

// most is what gh may take when it works for a box: the --jq of a box is a
// program that can double what it holds with every few characters, or run for
// ever. Of the 2 GiB that gh reserves it uses some 30 MiB.
var most = proc.Bounds{Memory: 4 << 30, CPU: 60}

// tokenNames are the variables by which gh takes a token for a host (gh help
// environment). One for an enterprise host counts only for the host that the
// user's own GH_HOST names, so that no other host is ever sent it.
func tokenNames(host string) []string {
	switch {
	case host == githubHost || strings.HasSuffix(host, ".ghe.com"):
		return []string{"GH_TOKEN", "GITHUB_TOKEN"}
	case strings.EqualFold(os.Getenv("GH_HOST"), host):
		return []string{"GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}
	}
	return nil
}

// command is one run of gh: about one repository, with nobody to ask, no pager,
// editor or browser.
func command(gh hostexec.Program, repo Repository, args []string) hostexec.Command {
	return hostexec.Command{
		Program: gh, Args: args, Inherit: append(tokenNames(repo.Host), "GH_CONFIG_DIR"),
		Env: []string{
			"GH_REPO=" + repo.String(), "GH_HOST=" + repo.Host,
			"GH_PROMPT_DISABLED=1", "NO_COLOR=1", "GH_NO_UPDATE_NOTIFIER=1",
			"GH_BROWSER=true", "BROWSER=true", "GH_PAGER=cat", "PAGER=cat", "GH_EDITOR=false", "EDITOR=false", "VISUAL=false",
			"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "SSH_ASKPASS_REQUIRE=never",
		},
	}
}

// probed finds gh, and sees that it answers and has a login for the host.
func (m *Method) probed(ctx context.Context, host string) (hostexec.Program, error) {
	gh, err := m.programs.Find(ctx, program)
	if errors.Is(err, hostexec.ErrNotFound) {
		return gh, refuse(wire.ExitNotFound, "the host has no gh, GitHub's command line; the user installs it from https://cli.github.com")
	} else if err != nil {
		return gh, err
	}
	key := gh.Path() + "\n" + host
	m.mu.Lock()
	last, seen := m.ready[key]
	m.mu.Unlock()
	if age := m.now().Sub(last); seen && age >= 0 && age < probeKept {
		return gh, nil
	}
	if err := m.examine(ctx, gh, host); err != nil {
		return gh, err
	}
	m.mu.Lock()
	m.ready[key] = m.now()
	m.mu.Unlock()
	return gh, nil
}

func (m *Method) examine(ctx context.Context, gh hostexec.Program, host string) error {
	run := func(timeout time.Duration, args ...string) hostexec.Result {
		c := command(gh, Repository{Host: host}, args)
		c.Timeout, c.MaxOutput = timeout, 64<<10
		return m.programs.Run(ctx, c)
	}
	if r := run(versionTimeout, "--version"); !r.OK() {
		return refuse(r.ExitCode, "the host's gh does not answer --version (exit code %d)", r.ExitCode)
	}
	for _, name := range tokenNames(host) {
		if os.Getenv(name) != "" {
			return nil
		}
	}
	if r := run(authTimeout, "auth", "status", "--hostname="+host); !r.OK() {
		return refuse(exitAuth, "the host's gh has no working login for %s; the user logs in with: gh auth login --hostname %s", host, host)
	}
	return nil
}

// read asks gh and takes a JSON answer apart.
func (m *Method) read(ctx context.Context, gh hostexec.Program, repo Repository, into any, args ...string) error {
	c := command(gh, repo, args)
	c.MaxOutput = maxAnswer
	r := m.programs.Run(ctx, c)
	if !r.OK() {
		return refuse(r.ExitCode, "gh %s: %s", args[0], core.Untrusted(strings.TrimSpace(string(r.Stderr))).Quote())
	}
	if err := json.Unmarshal(r.Stdout, into); err != nil {
		return refuse(wire.ExitFailed, "gh %s answered with what is not understood", args[0])
	}
	return nil
}

// commits are the messages of what a branch would bring, oldest first.
func (m *Method) commits(ctx context.Context, gh hostexec.Program, repo Repository, base, head string) ([]string, error) {
	if base == "" {
		var about struct {
			DefaultBranch string `json:"default_branch"`
		}
		if err := m.read(ctx, gh, repo, &about, "api", strings.TrimSuffix(repo.api(""), "/")); err != nil {
			return nil, err
		}
		base = about.DefaultBranch
	}
	if err := branch(base); err != nil {
		return nil, refuse(wire.ExitRefused, "%v", err)
	}
	var compared struct {
		Commits []struct {
			Commit struct {
				Message string `json:"message"`
			} `json:"commit"`
		} `json:"commits"`
	}
	if err := m.read(ctx, gh, repo, &compared, "api", repo.api("compare/"+base+"..."+head)); err != nil {
		return nil, err
	}
	messages := make([]string, len(compared.Commits))
	for i, c := range compared.Commits {
		messages[i] = c.Commit.Message
	}
	return messages, nil
}

// pullRequest is what a merge is decided on.
type pullRequest struct {
	Number      int    `json:"number"`
	Title       string `json:"title"`
	State       string `json:"state"`
	HeadRefName string `json:"headRefName"`
	HeadRefOid  string `json:"headRefOid"`
	BaseRefName string `json:"baseRefName"`
}

func (m *Method) pullRequest(ctx context.Context, gh hostexec.Program, repo Repository, target string) (pullRequest, error) {
	var pr pullRequest
	err := m.read(ctx, gh, repo, &pr, "pr", "view", "--repo="+repo.String(), "--json=number,title,state,headRefName,headRefOid,baseRefName", target)
	if err != nil {
		return pr, err
	}
	if _, err := core.ParseObjectID(pr.HeadRefOid); err != nil || pr.Number <= 0 {
		return pr, refuse(wire.ExitFailed, "gh told neither number nor commit of the pull request")
	}
	return pr, nil
}

// runBranch is the branch of a run, or of the run of a job; empty where that is
// another repository's.
func (m *Method) runBranch(ctx context.Context, gh hostexec.Program, repo Repository, run, job string) (string, error) {
	if job != "" {
		var of struct {
			RunID int64 `json:"run_id"`
		}
		if err := m.read(ctx, gh, repo, &of, "api", repo.api("actions/jobs/"+job)); err != nil {
			return "", err
		}
		run = fmt.Sprint(of.RunID) // gh heeds the job alone where both are named
	}
	var about struct {
		HeadBranch string `json:"head_branch"`
		Head       struct {
			FullName string `json:"full_name"`
		} `json:"head_repository"`
	}
	if err := m.read(ctx, gh, repo, &about, "api", repo.api("actions/runs/"+run)); err != nil {
		return "", err
	}
	if owner, name, _ := strings.Cut(about.Head.FullName, "/"); !repo.is(owner, name) {
		return "", nil
	}
	return about.HeadBranch, nil
}

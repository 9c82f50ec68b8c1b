package landing

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/gitcmd"
	"github.com/madarco/agentbox/ctl/proc"
)

// pushTime bounds one push: nobody is asked on this path, so only a large pack
// takes long.
const pushTime = 10 * time.Minute

// outputCap is how much is kept of what git prints, in bytes.
const outputCap = 64 << 10

// pushEnv is all that git sees of the daemon's environment, and none of the
// agent's configuration beside the repository's own.
var pushEnv = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin",
	"HOME=/nonexistent",
	"GIT_CONFIG_NOSYSTEM=1",
	"GIT_CONFIG_GLOBAL=/dev/null",
	"GIT_TERMINAL_PROMPT=0",
	"GIT_OPTIONAL_LOCKS=0",
	"LC_ALL=C",
}

// pushConfig overrides what the repository's own configuration may say: an
// agent's hooks, signing or proxy have no part in landing.
var pushConfig = []string{
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.bigFileThreshold=16m", // larger blobs are streamed, not held in memory
	"credential.helper=",
	"http.proxy=",
	"http.version=HTTP/1.1",
	"http.postBuffer=4194304", // a small pack goes in one piece
	"gc.auto=0",
}

func pushArgs(repo Repo, updates []update) []string {
	args := []string{"-C", string(repo.Path)}
	for _, c := range pushConfig {
		args = append(args, "-c", c)
	}
	args = append(args, "push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no", "--", repo.Endpoint)
	for _, u := range updates {
		args = append(args, "+"+string(u.oid)+":"+wire.LandingPrefix+string(u.branch))
	}
	return args
}

// push hands the updates in. It returns what the relay refused, by branch; an
// error says that the push did not get as far as an answer.
func push(ctx context.Context, repo Repo, updates []update) (map[core.BranchName]string, error) {
	git, err := gitcmd.Path()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	cmd := proc.Command(ctx, pushEnv, git, pushArgs(repo, updates)...)
	status, words := capped.Buffer{Max: outputCap}, capped.Buffer{Max: outputCap}
	cmd.Stdout, cmd.Stderr = &status, &words
	if err := proc.Start(cmd); err != nil {
		return nil, fmt.Errorf("start git: %w", err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("hand in commits: %w", ctx.Err())
	}
	refusals, complete := parseStatus(status.String(), updates)
	var exit *exec.ExitError
	switch {
	case complete:
		return refusals, nil
	case err == nil || errors.As(err, &exit):
		return nil, fmt.Errorf("hand in commits: %s", reason(words.String()))
	}
	return nil, fmt.Errorf("hand in commits: %w", err)
}

// parseStatus reads what `git push --porcelain` printed (git-push(1), OUTPUT):
// "<flag> TAB <from>:<to> TAB <summary> (<reason>)". complete tells that every
// update has an answer from the relay.
func parseStatus(text string, updates []update) (refusals map[core.BranchName]string, complete bool) {
	refusals = map[core.BranchName]string{}
	answered := map[core.BranchName]bool{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(fields) != 3 || len(fields[0]) != 1 {
			continue
		}
		_, to, _ := strings.Cut(fields[1], ":")
		name, ok := strings.CutPrefix(to, wire.LandingPrefix)
		if !ok {
			continue
		}
		branch := core.BranchName(name)
		if fields[0] == "!" {
			why, rejected := strings.CutPrefix(fields[2], "[remote rejected] ")
			if !rejected {
				continue // the answer did not arrive
			}
			refusals[branch] = strings.TrimSuffix(strings.TrimPrefix(why, "("), ")")
		}
		answered[branch] = true
	}
	for _, u := range updates {
		if !answered[u.branch] {
			return nil, false
		}
	}
	return refusals, true
}

// reason is the first line in which git or the relay says what went wrong; the
// lines after it are consequences.
func reason(text string) string {
	for line := range strings.Lines(text) {
		for _, prefix := range []string{"remote: ", "error: ", "fatal: "} {
			if words, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
				return words
			}
		}
	}
	return "git gave no reason"
}

package boxes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
)

// ctl is the program in the box that hands in commits.
const ctl = "agentbox-ctl"

// landTimeout bounds how long a box is waited for when it hands in its commits.
const landTimeout = 30 * time.Second

// askTimeout bounds how long a box is waited for when it is asked something.
const askTimeout = 15 * time.Second

// Bounds on what a box may answer.
const (
	maxAnswer = 1 << 20
	maxTips   = 4096
)

// Tip is the end of a branch, or of the stash, in a box.
type Tip struct {
	// Ref is the box's text.
	Ref core.Untrusted
	OID core.ObjectID
}

// Land lets the box hand in its commits now. Where the box's daemon does not
// get them through, they are pulled out of the box instead, and land under the
// same rules. What came of it goes to w: the box's text, or the relay's. The
// code is zero if all has landed.
func (k *Keeper) Land(ctx context.Context, box core.Box, w io.Writer) (int, error) {
	p, err := k.Provider(box.Provider)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, landTimeout, fmt.Errorf("box %s did not hand in its commits within %s", box.Name, landTimeout))
	defer cancel()
	code, err := k.land(ctx, p, box, w)
	if err == nil {
		return code, nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return 0, fmt.Errorf("land the commits of box %s: %w", box.Name, err)
}

func (k *Keeper) land(ctx context.Context, p provider.Provider, box core.Box, w io.Writer) (int, error) {
	said := capped.Buffer{Max: maxAnswer}
	code, err := p.Exec(ctx, box, provider.ExecRequest{Argv: []string{ctl, "land"}, Stdout: &said, Stderr: io.Discard})
	if err != nil {
		return 0, err
	}
	if code == 0 {
		_, err := w.Write(said.Bytes())
		return 0, err
	}
	relay, err := k.Relay(ctx)
	if err != nil {
		return 0, err
	}
	results, err := pull(ctx, p, relay, box, "")
	if err != nil {
		return 0, err
	}
	code = 0
	for _, r := range results {
		if _, err := io.WriteString(w, r.Envelope.Stdout+r.Envelope.Stderr); err != nil {
			return 0, err
		}
		code = max(code, r.Envelope.ExitCode)
	}
	return code, nil
}

// pull streams the box's commits from an exec to the relay: of its branches, or
// of the one that the user wants to be asked about.
func pull(ctx context.Context, p provider.Provider, relay factory.Relay, box core.Box, ask core.BranchName) ([]wire.LandingResult, error) {
	argv := []string{ctl, "land", "--stdout"}
	if ask != "" {
		argv = append(argv, "--branch", string(ask))
	}
	from, to := io.Pipe()
	errOut := capped.Buffer{Max: 4 << 10}
	sent := make(chan error, 1)
	go func() {
		code, err := p.Exec(ctx, box, provider.ExecRequest{Argv: argv, Stdout: to, Stderr: &errOut})
		if err == nil && code != 0 {
			err = fmt.Errorf("%s in the box ended with %d: %s", ctl, code, core.Untrusted(errOut.String()).Quote())
		}
		to.CloseWithError(err)
		sent <- err
	}()
	results, err := relay.Land(ctx, box.ID, ask != "", from)
	from.CloseWithError(errTaken)
	if exec := <-sent; exec != nil && !errors.Is(exec, errTaken) {
		return nil, exec
	}
	return results, err
}

// AskToLand has the relay ask whether a branch of the box, its own if branch is
// empty, should land on the user's branch as, the same if empty. A box that runs
// hands in what it has of the branch first; of another box it is what it handed
// in before.
func (k *Keeper) AskToLand(ctx context.Context, box core.Box, branch, as core.BranchName) (wire.AskedLanding, error) {
	var out wire.AskedLanding
	repo, ok := box.Root()
	if !ok {
		return out, fmt.Errorf("box %s: it works on no repository", box.Name)
	}
	p, err := k.Provider(box.Provider)
	if err != nil {
		return out, err
	}
	relay, err := k.Relay(ctx)
	if err != nil {
		return out, err
	}
	if branch == "" {
		branch = repo.Branch
	}
	ask := wire.AskLanding{BoxID: box.ID, RepoKey: repo.Key, Branch: branch, As: as}
	state, err := p.State(ctx, box)
	if err != nil {
		return out, err
	}
	if state == core.StateRunning {
		ctx, cancel := context.WithTimeoutCause(ctx, landTimeout, fmt.Errorf("box %s did not hand in %s within %s", box.Name, branch, landTimeout))
		defer cancel()
		results, err := pull(ctx, p, relay, box, branch)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return out, context.Cause(ctx)
		case err != nil:
			return out, fmt.Errorf("hand in %s of box %s: %w", branch, box.Name, err)
		}
		for _, r := range results {
			if r.Branch == branch && r.RepoKey == repo.Key {
				ask.Tip = r.Tip
			}
			if r.Envelope.ExitCode != 0 {
				return out, fmt.Errorf("hand in %s of box %s: %s", branch, box.Name, strings.TrimSpace(r.Envelope.Stderr))
			}
		}
		if ask.Tip == "" {
			return out, fmt.Errorf("box %s has no branch %s", box.Name, branch)
		}
	}
	return relay.AskLanding(ctx, ask)
}

// errTaken is what the exec meets when the relay reads no further.
var errTaken = errors.New("the relay has what it wants")

// Unlanded lets the box hand in its commits, and returns the tips that the
// user's repositories still lack. Whether they lack one is looked up on the
// host; a box that lies about its tips loses its own work alone.
func (k *Keeper) Unlanded(ctx context.Context, box core.Box) ([]Tip, error) {
	if len(box.Repos) == 0 {
		return nil, nil
	}
	p, err := k.Provider(box.Provider)
	if err != nil {
		return nil, err
	}
	repositories, err := k.Repositories()
	if err != nil {
		return nil, err
	}
	// A hand-in that fails shows in what is missing afterwards.
	if _, err := k.Land(ctx, box, io.Discard); err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var left []Tip
	for _, repo := range box.Repos {
		tips, err := tipsOf(ctx, p, box, repo)
		if err != nil {
			return nil, fmt.Errorf("list the branches of box %s: %w", box.Name, err)
		}
		var ids []core.ObjectID
		for _, t := range tips {
			ids = append(ids, t.OID)
		}
		missing, err := repositories.Missing(ctx, repo, ids)
		if err != nil {
			return nil, err
		}
		for _, t := range tips {
			if slices.Contains(missing, t.OID) {
				left = append(left, t)
			}
		}
	}
	return left, nil
}

// tipsOf lists the ends of the box's own history: branches, stash and a
// detached HEAD.
func tipsOf(ctx context.Context, p provider.Provider, box core.Box, repo core.Repo) ([]Tip, error) {
	at := string(repo.BoxPath)
	refs, err := ask(ctx, p, box, "git", "-C", at, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/stash")
	if err != nil {
		return nil, err
	}
	head, err := ask(ctx, p, box, "git", "-C", at, "rev-parse", "--verify", "HEAD")
	if err != nil {
		return nil, err
	}
	return parseTips(refs + "\n" + strings.TrimSpace(head) + " HEAD\n")
}

// parseTips reads lines of an object id and a ref, which a box wrote.
func parseTips(text string) ([]Tip, error) {
	var tips []Tip
	seen := map[core.ObjectID]bool{}
	for line := range strings.Lines(text) {
		id, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if id == "" {
			continue
		}
		oid, err := core.ParseObjectID(id)
		if err != nil {
			return nil, fmt.Errorf("the box's answer: %w", err)
		}
		if seen[oid] {
			continue
		}
		seen[oid] = true
		if len(tips) == maxTips {
			return nil, fmt.Errorf("the box has more than %d branches", maxTips)
		}
		tips = append(tips, Tip{core.Untrusted(ref), oid})
	}
	return tips, nil
}

// ask runs a command in the box and returns what it prints, which is the box's
// text, up to a bound. The program is the box's too: one that never ends must
// hold up no stop and no destroy.
func ask(ctx context.Context, p provider.Provider, box core.Box, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("%s in the box did not answer within %s", argv[0], askTimeout))
	defer cancel()
	out, errOut := capped.Buffer{Max: maxAnswer}, capped.Buffer{Max: 4 << 10}
	code, err := p.Exec(ctx, box, provider.ExecRequest{Argv: argv, Stdout: &out, Stderr: &errOut})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "", context.Cause(ctx)
	case err != nil:
		return "", err
	case code != 0:
		return "", fmt.Errorf("%s in the box ended with %d: %s", argv[0], code, core.Untrusted(errOut.String()).Quote())
	case out.Cut():
		return "", fmt.Errorf("the box's answer is longer than %d bytes", maxAnswer)
	}
	return out.String(), nil
}

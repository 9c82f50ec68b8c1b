package boxes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// ctl is the program in the box that hands in commits.
const ctl = "agentbox-ctl"

// landTimeout bounds how long a box is waited for when it hands in its commits.
const landTimeout = 30 * time.Second

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

// Land asks the box to hand in its commits now and writes what it says, which
// is the box's text, to w. The code is that of the command in the box.
func (k *Keeper) Land(ctx context.Context, box core.Box, w io.Writer) (int, error) {
	p, err := k.Provider(box.Provider)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, landTimeout, fmt.Errorf("box %s did not hand in its commits within %s", box.Name, landTimeout))
	defer cancel()
	code, err := p.Exec(ctx, box, provider.ExecRequest{Argv: []string{ctl, "land"}, Stdout: w, Stderr: w})
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("land the commits of box %s: %w", box.Name, err)
	}
	return code, nil
}

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
// text, up to a bound.
func ask(ctx context.Context, p provider.Provider, box core.Box, argv ...string) (string, error) {
	out, errOut := capped{max: maxAnswer}, capped{max: 4 << 10}
	code, err := p.Exec(ctx, box, provider.ExecRequest{Argv: argv, Stdout: &out, Stderr: &errOut})
	switch {
	case err != nil:
		return "", err
	case code != 0:
		return "", fmt.Errorf("%s in the box ended with %d: %s", argv[0], code, core.Untrusted(errOut.kept.String()).Quote())
	case out.cut:
		return "", fmt.Errorf("the box's answer is longer than %d bytes", maxAnswer)
	}
	return out.kept.String(), nil
}

// capped keeps the first max bytes and notes whether there were more.
type capped struct {
	max  int
	kept bytes.Buffer
	cut  bool
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.max-c.kept.Len())
	c.kept.Write(p[:n])
	c.cut = c.cut || n < len(p)
	return len(p), nil
}

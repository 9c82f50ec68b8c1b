package landing

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/ctl/gitcmd"
	"github.com/madarco/agentbox/ctl/proc"
)

// wordsCap is how much is kept of what git complains about, in bytes.
const wordsCap = 64 << 10

// gitEnv is all that git sees of the daemon's environment, and none of the
// agent's configuration beside the repository's own.
var gitEnv = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin",
	"HOME=/nonexistent",
	"GIT_CONFIG_NOSYSTEM=1",
	"GIT_CONFIG_GLOBAL=/dev/null",
	"GIT_TERMINAL_PROMPT=0",
	"GIT_OPTIONAL_LOCKS=0",
	"LC_ALL=C",
}

// packArgs override what the repository's own configuration may say.
var packArgs = []string{
	"-c", "core.fsmonitor=false",
	"-c", "core.bigFileThreshold=16m", // larger blobs are streamed, not held in memory
	"-c", "pack.compression=1", // the way is short: time counts more than bytes
	"pack-objects", "--revs", "--thin", "--stdout", "-q", "--delta-base-offset",
}

// writePack packs what the tips need beyond the box's base, which the host's
// gate holds for certain, and beyond held. The gate may lack what the box has
// fetched since, so that is packed too. An exclusion that a repository made
// anew does not know is left out, and the pack is larger then.
func writePack(ctx context.Context, w io.Writer, repo Repo, tips, held []core.ObjectID) error {
	without := slices.Clone(held)
	if !repo.Base.IsZero() {
		without = append(without, repo.Base)
	}
	for {
		out := &touched{w: w}
		err := packObjects(ctx, out, repo, tips, without)
		if err == nil || out.written {
			return err
		}
		unknown := func(id core.ObjectID) bool { return strings.Contains(err.Error(), string(id)) }
		if !slices.ContainsFunc(without, unknown) {
			return err
		}
		without = slices.DeleteFunc(without, unknown)
	}
}

// packObjects is the one git process of a hand-in.
func packObjects(ctx context.Context, w io.Writer, repo Repo, tips, without []core.ObjectID) error {
	program, err := gitcmd.Path()
	if err != nil {
		return err
	}
	var revisions strings.Builder
	for _, id := range tips {
		fmt.Fprintf(&revisions, "%s\n", id)
	}
	for _, id := range without {
		fmt.Fprintf(&revisions, "^%s\n", id)
	}
	cmd := proc.Command(ctx, gitEnv, program, append([]string{"-C", string(repo.Path)}, packArgs...)...)
	words := capped.Buffer{Max: wordsCap}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(revisions.String()), w, &words
	if err := proc.Start(cmd); err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("pack the commits of %s: %w: %s", repo.Path, err, complaint(words.String()))
	}
	return nil
}

// complaint is the first line in which git says what went wrong; the lines
// after it are consequences.
func complaint(text string) string {
	for line := range strings.Lines(text) {
		for _, prefix := range []string{"error: ", "fatal: "} {
			if words, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
				return plain(words)
			}
		}
	}
	return "git gave no reason"
}

// touched tells whether anything was written.
type touched struct {
	w       io.Writer
	written bool
}

func (t *touched) Write(p []byte) (int, error) {
	t.written = t.written || len(p) > 0
	return t.w.Write(p)
}

package landing

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/core/handin"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/ctl/gitcmd"
	"github.com/madarco/agentbox/ctl/proc"
)

// WriteHandin writes the branches of the repositories as a stream of package
// handin, for a host that pulls them because no daemon can push.
func WriteHandin(ctx context.Context, w io.Writer, repos []Repo) error {
	var header handin.Header
	var packs []func(io.Writer) error
	for _, repo := range repos {
		for _, branch := range repo.Branches {
			tip, err := readTip(filepath.Join(string(repo.Path), ".git"), branch)
			if err != nil {
				return err
			}
			if tip == "" {
				continue
			}
			header.Tips = append(header.Tips, handin.Tip{RepoKey: repo.Key, Branch: branch, OID: tip})
			packs = append(packs, func(w io.Writer) error { return writePack(ctx, w, repo, tip) })
		}
	}
	if err := handin.WriteHeader(w, header); err != nil {
		return err
	}
	for _, pack := range packs {
		if err := setup.WriteSection(w, pack); err != nil {
			return err
		}
	}
	return nil
}

// writePack packs what the tip needs beyond the box's base, which the host's
// gate holds for certain; it may not hold what the box has fetched since.
func writePack(ctx context.Context, w io.Writer, repo Repo, tip core.ObjectID) error {
	revisions := string(tip) + "\n"
	if !repo.Base.IsZero() && git(ctx, repo, nil, io.Discard, "cat-file", "-e", string(repo.Base)+"^{commit}") == nil {
		revisions += "^" + string(repo.Base) + "\n"
	}
	return git(ctx, repo, strings.NewReader(revisions), w, "pack-objects", "-q", "--revs", "--stdout", "--delta-base-offset")
}

// git runs one command of the real git in the repository.
func git(ctx context.Context, repo Repo, stdin io.Reader, stdout io.Writer, args ...string) error {
	program, err := gitcmd.Path()
	if err != nil {
		return err
	}
	all := []string{"-C", string(repo.Path), "-c", "core.fsmonitor=false", "-c", "core.bigFileThreshold=16m"}
	cmd := proc.Command(ctx, pushEnv, program, append(all, args...)...)
	words := capped.Buffer{Max: outputCap}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &words
	if err := proc.Start(cmd); err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("git %s in %s: %w: %s", args[0], repo.Path, err, reason(words.String()))
	}
	return nil
}

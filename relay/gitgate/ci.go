package gitgate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
)

// maxCIPaths is how many files of CI a question shows.
const maxCIPaths = 20

// ci is what the remote would run on a push of the box's own branch, as far as
// the seed knows the remote: the red list's files of CI on its default branch,
// or, where that is not known, on the branch that the box started from.
func (g *gate) ci(ctx context.Context, u policy.RefUpdate) (policy.CI, error) {
	if u.Ref != g.repo.Branch.Ref() {
		return policy.CI{}, nil
	}
	refs, err := g.seedRefs(ctx)
	if err != nil {
		return policy.CI{}, err
	}
	name := cmp.Or(g.repo.DefaultBranch, g.repo.BaseBranch).Ref()
	i := slices.IndexFunc(refs, func(r ref) bool { return r.name == name })
	if i < 0 {
		return policy.CI{}, nil
	}
	key := g.dir + "\x00" + string(refs[i].oid)
	if found, ok := g.h.ciFiles.get(key); ok {
		return found, nil
	}
	found, err := g.listCI(ctx, refs[i].oid)
	if err == nil {
		g.h.ciFiles.put(key, found)
	}
	return found, err
}

// listCI lists the files of CI in a commit.
func (g *gate) listCI(ctx context.Context, commit core.ObjectID) (ci policy.CI, err error) {
	digest, runs := sha256.New(), false
	err = g.h.run.stream(ctx, g.in("ls-tree", "-r", "-z", "--full-tree", string(commit)), func(out io.Reader) error {
		return eachRecord(out, 0, func(record []byte) error {
			_, path, ok := strings.Cut(string(record), "\t")
			if !ok {
				return errGitOutput
			}
			if !isCI(path) {
				return nil
			}
			fmt.Fprintf(digest, "%d %s\x00", len(record), record)
			runs = runs || !isAction(path)
			if ci.Count++; len(ci.Paths) < maxCIPaths {
				ci.Paths = append(ci.Paths, core.Untrusted(path))
			}
			return nil
		})
	})
	if exitCode(err) > 0 { // a partial clone may lack the folders: what is unknown would run
		return policy.CI{Digest: "unlisted " + string(commit), Count: 1, Paths: []core.Untrusted{"(unknown: the clone is partial)"}}, nil
	}
	if err != nil || !runs {
		return policy.CI{}, err
	}
	ci.Digest = hex.EncodeToString(digest.Sum(nil))
	return ci, nil
}

// isCI tells whether a forge or a host of builds may read the file. GitHub reads
// workflows in the folder of the root alone (docs.github.com, "Workflow syntax").
func isCI(path string) bool {
	return slices.Contains(redlist.Match(path), redlist.Workflow) && !strings.Contains(path, "/.github/")
}

// isAction tells whether the file only says what a workflow may call.
func isAction(path string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	return strings.HasPrefix(path, ".github/actions/") || base == "action.yml" || base == "action.yaml"
}

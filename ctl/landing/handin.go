package landing

import (
	"context"
	"io"
	"path/filepath"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/handin"
	"github.com/madarco/agentbox/core/setup"
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
			packs = append(packs, func(w io.Writer) error { return writePack(ctx, w, repo, []core.ObjectID{tip}, nil) })
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

package system

import (
	"context"

	"github.com/madarco/agentbox/relay/gitgate"
)

// PurgeSeed drops kept history from the store of the repository that the user
// stands in.
func (sys *System) PurgeSeed(ctx context.Context) (gitgate.Purged, error) {
	root, err := sys.Project("")
	if err != nil {
		return gitgate.Purged{}, err
	}
	git, err := sys.git()
	if err != nil {
		return gitgate.Purged{}, err
	}
	repo, err := git.Open(ctx, root)
	if err != nil {
		return gitgate.Purged{}, err
	}
	return git.PurgeSeed(ctx, repo.Key)
}

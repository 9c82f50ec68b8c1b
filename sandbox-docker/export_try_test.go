package sandboxdocker

import (
	"context"

	"github.com/madarco/agentbox/core"
)

// LookInto lets tests hold the look of a try at a box of theirs.
func (p *Provider) LookInto(ctx context.Context, box core.Box) (string, error) {
	return p.lookInto(ctx, box.Docker.Container)
}

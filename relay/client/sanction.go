package client

import (
	"context"

	"github.com/madarco/agentbox/core/wire"
)

// Sanction tells the relay which branch the user has put a box on.
func (c *Client) Sanction(ctx context.Context, s wire.SanctionBranch) error {
	return c.post(ctx, "/admin/sanction", s, nil)
}

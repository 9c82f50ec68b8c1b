package root

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/output"
)

// versionView is what `version --json` shows.
type versionView struct {
	Version string `json:"version"`
}

func newVersion(f *factory.Factory) *cli.Command {
	var asJSON output.JSON
	return &cli.Command{
		Name: "version", Category: "Advanced",
		Usage: "print the version",
		Flags: []cli.Flag{args.JSON(&asJSON)},
		Action: func(_ context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 0); err != nil {
				return err
			}
			if err := output.Check[versionView](asJSON); err != nil {
				return err
			}
			if asJSON.On {
				return output.One(f.Streams.Out, asJSON, f.Streams.OutTTY, versionView{f.Version})
			}
			return printVersion(f)
		},
	}
}

func printVersion(f *factory.Factory) error {
	_, err := fmt.Fprintln(f.Streams.Out, f.Version)
	return err
}

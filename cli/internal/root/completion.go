package root

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/complete"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
)

// completeLine answers a shell that asks how a line goes on.
func completeLine(f *factory.Factory, tree *cli.Command, words []string) error {
	return complete.Write(f.Streams.Out, complete.Line(tree, words, complete.Source{
		Boxes:  f.Boxes,
		Values: map[string][]string{"--provider": factory.Providers, "shell": complete.Shells},
	}))
}

// newCompletion is the command `completion`.
func newCompletion(f *factory.Factory) *cli.Command {
	return &cli.Command{
		Name: "completion", Category: "Advanced",
		Usage:     "print what teaches a shell to complete commands, options and boxes",
		ArgsUsage: "<shell>",
		Description: "bash, in ~/.bashrc:                    eval \"$(agentbox completion bash)\"\n" +
			"zsh, in ~/.zshrc behind compinit:       eval \"$(agentbox completion zsh)\"\n" +
			"fish, in ~/.config/fish/config.fish:    agentbox completion fish | source",
		Action: func(_ context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 1, 1); err != nil {
				return err
			}
			shell := c.Args().First()
			script, ok := complete.Script(shell)
			if !ok {
				next := "shells: " + strings.Join(complete.Shells, ", ")
				return fail.Usagef(next, "no completion for %s", core.Untrusted(shell).Quote())
			}
			if _, err := io.WriteString(f.Streams.Out, script); err != nil {
				return fmt.Errorf("write the script: %w", err)
			}
			return nil
		},
	}
}

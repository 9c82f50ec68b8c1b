// Package create is the command `agentbox create`.
package create

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/cmd/git"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/session"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/cli/internal/view"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/sandbox-core/workspace"
)

// Open opens the project that a folder belongs to.
type Open = func(ctx context.Context, folder string, o workspace.Options) (boxes.Project, error)

// Options are the options of create.
type Options struct {
	Streams  *streams.Streams
	Provider func(name string) (provider.Provider, error)
	// Open opens the user's project that a folder belongs to, the one that the
	// user stands in if it is empty.
	Open Open
	// Creator makes boxes with a provider.
	Creator func(p provider.Provider) (*boxes.Creator, error)
	// Keeper books the branch that a new box is put on.
	Keeper func() (git.Keeper, error)

	Workspace    string
	Name         string
	ProviderName string
	Image        string
	Include      []string
	// From is the commit that the box starts at, UseBranch the branch that it
	// is put on; without either it is HEAD with the uncommitted work.
	From, UseBranch string

	JSON output.JSON
	// Command runs in the box once it is made.
	Command []string
}

// New parses the command line of create.
func New(o *Options, f *factory.Factory, run func(context.Context, *Options) error) *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "make a box of this project, with its uncommitted work",
		ArgsUsage: "[-- command…]",
		Description: "The box works on a branch of its own, agentbox/<name>. Its commits appear in\n" +
			"your repository under that name; nothing else of your repository moves.\n" +
			"With a command it runs that in the box, and ends with its code.",
		DisableSliceFlagSeparator: true, // a file's name may hold a comma
		Flags:                     append(Flags(o), args.JSON(&o.JSON)),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return fail.Usagef(c.FullName()+" --help", "%s takes no argument; a name goes behind --name, a command behind --", c.FullName())
			}
			if f.HasTail && len(f.Tail) == 0 {
				return fail.Usagef("agentbox create -- make test", "no command behind --")
			}
			if err := CheckFlags(c, o); err != nil {
				return err
			}
			o.Command = f.Tail
			return run(ctx, o)
		},
	}
}

// NewOptions are the options of a command that makes a box.
func NewOptions(f *factory.Factory, open Open, creator func(provider.Provider) (*boxes.Creator, error), keeper func() (git.Keeper, error)) *Options {
	return &Options{Streams: f.Streams, Provider: f.Provider, Open: open, Creator: creator, Keeper: keeper}
}

// Flags are the flags that say what box to make. The command must not separate
// values at commas: a file's name may hold one.
func Flags(o *Options) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "the box's `NAME`; default is the folder's, with a number if it is taken", Destination: &o.Name, Local: true},
		&cli.StringFlag{Name: "workspace", Aliases: []string{"w"}, Usage: "the project's `FOLDER`; default is this one", Destination: &o.Workspace, Local: true},
		&cli.StringFlag{Name: "provider", Usage: "what makes the box: `NAME` is docker", Value: "docker", Destination: &o.ProviderName, Local: true},
		&cli.StringFlag{Name: "image", Usage: "the `IMAGE`: full, with the coding agents, lean without, or one of yours that was built FROM either; default is box.image in config.yaml, or full", Destination: &o.Image, Local: true},
		&cli.StringSliceFlag{Name: "include", Usage: "carry this untracked `FILE` although it looks secret", Destination: &o.Include, Local: true},
		&cli.StringFlag{Name: "from", Usage: "start at this `COMMIT` or branch, without your uncommitted work", Destination: &o.From, Local: true},
		&cli.StringFlag{Name: "use-branch", Usage: "put the box on this `BRANCH` of yours instead of a new one", Destination: &o.UseBranch, Local: true},
	}
}

// CheckFlags refuses what the flags' own parser lets through.
func CheckFlags(c *cli.Command, o *Options) error {
	if c.IsSet("name") && o.Name == "" {
		return fail.Usagef("", "the name is empty")
	}
	if c.IsSet("from") && c.IsSet("use-branch") {
		return fail.Usagef("leave one of the two out", "--use-branch says where the box starts, and so does --from")
	}
	return nil
}

// Run makes the box and, with a command, runs it there.
func Run(ctx context.Context, o *Options) error {
	if err := output.Check[view.Box](o.JSON); err != nil {
		return err
	}
	box, p, err := Make(ctx, o)
	if err != nil {
		return err
	}
	if len(o.Command) > 0 {
		o.Streams.Note("box %s runs", box.Name)
		return session.Run(ctx, o.Streams, p, box, o.Command)
	}
	return show(o, box)
}

// Make makes the box and says what it got.
func Make(ctx context.Context, o *Options) (core.Box, provider.Provider, error) {
	var name core.BoxName
	err := factory.CheckProvider(o.ProviderName)
	if err == nil && o.Name != "" {
		name, err = core.ParseBoxName(o.Name)
	}
	if err != nil {
		return core.Box{}, nil, err
	}
	project, err := o.open(ctx)
	if err != nil {
		return core.Box{}, nil, err
	}
	p, err := o.Provider(o.ProviderName)
	if err != nil {
		return core.Box{}, nil, err
	}
	creator, err := o.Creator(p)
	if err != nil {
		return core.Box{}, nil, err
	}
	box, err := creator.Create(ctx, project, boxes.Request{Name: name, Image: o.Image})
	if err != nil {
		return core.Box{}, nil, err
	}
	for _, note := range project.Notes() {
		o.Streams.Note("%s", output.Line(note))
	}
	if o.UseBranch != "" {
		return box, p, o.putOn(ctx, box)
	}
	return box, p, nil
}

func show(o *Options, box core.Box) error {
	v := view.OfBox(box, core.StateRunning)
	v.On = core.BranchName(o.UseBranch) // open has read it
	if o.JSON.On {
		return output.One(o.Streams.Out, o.JSON, o.Streams.OutTTY, v)
	}
	rows := [][]string{{"box", fmt.Sprintf("%s (number %d, id %s)", v.Name, v.Index, v.ID)}}
	for _, row := range [][]string{{"branch", v.WorksOn()}, {"container", v.Container}, {"image", v.Image}} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	if err := output.Table(o.Streams.Out, rows); err != nil {
		return err
	}
	o.Streams.Note("next: agentbox shell %d; agentbox destroy %d removes it", box.ProjectIndex, box.ProjectIndex)
	return nil
}

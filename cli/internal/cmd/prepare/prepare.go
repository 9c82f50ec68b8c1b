// Package prepare is the command `agentbox prepare`: it makes the box image
// ahead of the first create, or says what there is of it.
package prepare

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core/provider"
)

// Options are the options of prepare.
type Options struct {
	Streams  *streams.Streams
	Provider func(name string) (provider.Provider, error)
	// Step shows a part of the work.
	Step func(name string) (done func(error))

	ProviderName string
	Image        string
	Build        bool
	Status       bool
	JSON         output.JSON
}

// New parses the command line of prepare.
func New(f *factory.Factory, step func(string) func(error), run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Provider: f.Provider, Step: step}
	return &cli.Command{
		Name:  "prepare",
		Usage: "make the box image ahead of the first create",
		Description: "The image comes ready-made where there is one of this version, else it is\n" +
			"built here, from packages of the distribution and, for full, of npm.\n" +
			"Without --image it is that of box.image in config.yaml, or full.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "image", Usage: "the `IMAGE`: full, with the coding agents, or lean", Destination: &o.Image, Local: true},
			&cli.BoolFlag{Name: "build", Usage: "build it here, even if it could be had ready-made", Destination: &o.Build, Local: true},
			&cli.BoolFlag{Name: "status", Usage: "say which images are there and fit this version; change nothing", Destination: &o.Status, Local: true},
			&cli.StringFlag{Name: "provider", Usage: "what makes boxes: `NAME` is docker", Value: "docker", Destination: &o.ProviderName, Local: true},
			args.JSON(&o.JSON),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 0); err != nil {
				return err
			}
			if o.Status && (o.Build || o.Image != "") {
				return fail.Usagef(c.FullName()+" --status", "--status shows all images and makes none, so neither --build nor --image goes with it")
			}
			return run(ctx, o)
		},
	}
}

// Run makes the image, or shows the status of all.
func Run(ctx context.Context, o *Options) error {
	err := output.Check[provider.ImageStatus](o.JSON)
	if err == nil {
		err = factory.CheckProvider(o.ProviderName)
	}
	if err != nil {
		return err
	}
	p, err := o.Provider(o.ProviderName)
	if err != nil {
		return err
	}
	preparer, ok := p.(provider.Preparer)
	if !ok {
		return fmt.Errorf("prepare an image for %s: %w", p.Name(), provider.ErrUnsupported)
	}
	if o.Status {
		return status(ctx, o, preparer)
	}
	made, err := preparer.Prepare(ctx, provider.PrepareRequest{Image: o.Image, Build: o.Build, Step: o.Step})
	if err != nil {
		return err
	}
	if o.JSON.On {
		return output.One(o.Streams.Out, o.JSON, o.Streams.OutTTY, made)
	}
	return output.Table(o.Streams.Out, [][]string{row(made)})
}

func status(ctx context.Context, o *Options, p provider.Preparer) error {
	all, err := p.Images(ctx)
	if err != nil {
		return err
	}
	if o.JSON.On {
		return output.List(o.Streams.Out, o.JSON, o.Streams.OutTTY, all)
	}
	rows := make([][]string, 0, len(all))
	for _, s := range all {
		rows = append(rows, row(s))
	}
	return output.Table(o.Streams.Out, rows)
}

func row(s provider.ImageStatus) []string {
	about := s.Ref
	switch s.State {
	case provider.ImageStale:
		about += fmt.Sprintf(", was %s, now %s; the next create makes it anew", s.Was, s.Now)
	case provider.ImageMissing:
		about += "; the next create makes it"
	}
	return []string{s.Image, string(s.State), output.Line(about)}
}

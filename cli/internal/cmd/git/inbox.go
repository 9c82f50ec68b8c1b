package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// Op is what is done with git in the box.
type Op string

// The operations.
const (
	Status   Op = "status"
	Fetch    Op = "fetch"
	Pull     Op = "pull"
	Checkout Op = "checkout"
	Branch   Op = "branch"
)

// Keeper books which branch a box is on.
type Keeper interface {
	// MayPutOn refuses a branch that another box has as its own.
	MayPutOn(box core.Box, branch core.BranchName) error
	// PutOn makes pushes to the branch, and its landing, go like those of the
	// box's own branch.
	PutOn(ctx context.Context, box core.Box, branch core.BranchName) error
	// Note writes down that the box is on the branch, and no more.
	Note(ctx context.Context, box core.Box, branch core.BranchName) error
}

// Options are the options of the commands that run git in a box.
type Options struct {
	Streams  *streams.Streams
	Box      func(ref string) (core.Box, error)
	Provider func(name string) (provider.Provider, error)
	Keeper   func() (Keeper, error)

	Op  Op
	Ref string
	// Branch is the user's word; From is where a new branch starts.
	Branch, From string
	Remote       string
	FFOnly       bool
	// Unbooked only notes where the box is: pushes to the branch ask as before.
	Unbooked bool
}

// forms say how each operation is called: its words, how many it needs, and
// which of them is the branch.
var forms = map[Op]struct {
	usage, words, description string
	least, most               int
}{
	Status: {usage: "show git status as the box sees it", words: "[box]", most: 1},
	Fetch:  {usage: "fetch from the remote in a box", words: "[box]", most: 1},
	Pull: {
		usage: "fetch and merge in a box; with a branch, put it there first", words: "[box] [branch]", most: 2,
		description: "A box on its own branch gets what the remote has of the branch that it started from.\n" +
			"With a branch it is put there, as `agentbox git checkout` does, and gets what the remote\n" +
			"has of it.",
	},
	Checkout: {
		usage: "put a box on a branch", words: "[box] <branch>", least: 1, most: 2,
		description: "From then on the box may push that branch as it pushes its own, as far as it\n" +
			"moves forward, and its commits land there. The last branch that you name counts.",
	},
	Branch: {
		usage: "make a branch in a box and put it there", words: "[box] <name>", least: 1, most: 2,
		description: "agentbox/ is put before the name where it lacks it. From then on the box may push\n" +
			"that branch as it pushes its own, as far as it moves forward.",
	},
}

func newInBox(f *factory.Factory, keeper func() (Keeper, error), op Op, run func(context.Context, *Options) error) *cli.Command {
	form := forms[op]
	o := &Options{Streams: f.Streams, Box: f.Box, Provider: f.Provider, Keeper: keeper, Op: op}
	c := &cli.Command{
		Name: string(op), Usage: form.usage, ArgsUsage: form.words, Description: form.description,
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, form.least, form.most); err != nil {
				return err
			}
			words := c.Args().Slice()
			if op == Checkout || op == Branch || len(words) == 2 {
				o.Branch, words = words[len(words)-1], words[:len(words)-1]
				if o.Branch == "" {
					return fail.Usagef(c.FullName()+" --help", "the branch is empty")
				}
			}
			o.Ref = strings.Join(words, "")
			return run(ctx, o)
		},
	}
	switch op {
	case Fetch, Pull:
		c.Flags = append(c.Flags, &cli.StringFlag{Name: "remote", Usage: "the `REMOTE`; default is the box's", Destination: &o.Remote, Local: true})
	case Branch:
		c.Flags = append(c.Flags, &cli.StringFlag{Name: "from", Usage: "start at this `COMMIT` or branch; default is where the box is", Destination: &o.From, Local: true})
	}
	if op == Pull {
		c.Flags = append(c.Flags, &cli.BoolFlag{Name: "ff-only", Usage: "make no merge commit", Destination: &o.FFOnly, Local: true})
	}
	return c
}

// request is a parsed line.
type request struct {
	op     Op
	at     core.BoxPath
	branch core.BranchName
	from   string
	remote core.RemoteName
	// base is the remote's branch that a pull merges: the one that the user put
	// the box on, else the one that its own started from.
	base   core.BranchName
	ffOnly bool
}

func (o *Options) parse(repo core.Repo) (r request, err error) {
	r = request{op: o.Op, at: repo.BoxPath, from: o.From, remote: repo.Remote, ffOnly: o.FFOnly}
	if o.Branch != "" {
		name := o.Branch
		if o.Op == Branch && !strings.HasPrefix(name, core.BranchPrefix) {
			name = core.BranchPrefix + name
		}
		if r.branch, err = core.ParseBranchName(name); err != nil {
			return r, err
		}
	}
	if o.From != "" {
		if err := args.Revision(o.From); err != nil {
			return r, err
		}
	}
	if o.Remote != "" {
		if r.remote, err = core.ParseRemoteName(o.Remote); err != nil {
			return r, err
		}
	}
	if r.remote != "" {
		r.base = cmp.Or(repo.On, repo.Sanctioned, repo.BaseBranch)
	}
	if r.op == Pull && r.branch != "" && r.remote == "" {
		return r, fail.Usagef("agentbox git checkout", "pull %s: the repository has no remote", r.branch)
	}
	return r, nil
}

// step is one git command in the box. After puts tells that the box is then on
// the branch.
type step struct {
	args []string
	puts bool
}

// steps are git's command lines for a request. They hold names that were
// validated, and words of ours.
func (r request) steps() []step {
	remote, branch := string(r.remote), string(r.branch)
	with := func(words ...string) []string { // leaves out what was not said
		var out []string
		for _, w := range words {
			if w != "" {
				out = append(out, w)
			}
		}
		return out
	}
	forward := ""
	if r.ffOnly {
		forward = "--ff-only"
	}
	toBranch := step{puts: true, args: []string{"switch", branch}}
	if remote != "" { // where several remotes have the branch
		toBranch.args = []string{"-c", "checkout.defaultRemote=" + remote, "switch", branch}
	}
	switch {
	case r.op == Status:
		return []step{{args: []string{"status", "--short", "--branch"}}}
	case r.op == Fetch:
		return []step{{args: with("fetch", remote)}}
	case r.op == Pull && r.branch == "":
		return []step{{args: with("pull", "--no-edit", forward, remote, string(r.base))}}
	case r.op == Pull:
		return []step{{args: []string{"fetch", remote}}, toBranch, {args: with("merge", "--no-edit", forward, remote+"/"+branch)}}
	case r.op == Branch:
		return []step{{puts: true, args: with("switch", "--no-track", "--create", branch, r.from)}}
	}
	return []step{toBranch}
}

// statusTime bounds how long a box is waited for that only has to look at its
// own files.
const statusTime = 30 * time.Second

// Run runs git in the box, and books the branch that the user put it on.
func Run(ctx context.Context, o *Options) error {
	box, repo, err := repository(o.Box, o.Ref)
	if err != nil {
		return err
	}
	r, err := o.parse(repo)
	if err != nil {
		return err
	}
	p, err := o.Provider(box.Provider)
	if err != nil {
		return err
	}
	k, err := o.Keeper()
	if err != nil {
		return err
	}
	if r.branch != "" {
		if err := k.MayPutOn(box, r.branch); err != nil {
			return err
		}
	}
	if o.Op == Status {
		late, cancel := context.WithTimeoutCause(ctx, statusTime, fail.New(fail.Timeout, "agentbox shell "+string(box.Name), "box %s did not answer within %s", box.Name, statusTime))
		defer cancel()
		ctx = late
	}
	o.Streams.Note("box %s says:", box.Name)
	for _, s := range r.steps() {
		code, err := o.git(ctx, p, box, r.at, s.args)
		if err != nil || code != 0 {
			if err == nil && o.Op == Checkout && r.remote != "" {
				o.Streams.Note("next: a branch that the box has not seen yet comes with: agentbox git pull %s %s", box.Name, r.branch)
			}
			return errors.Join(err, fail.Exited(code))
		}
		if !s.puts {
			continue
		}
		if o.Unbooked {
			if err := k.Note(ctx, box, r.branch); err != nil {
				return err
			}
			continue
		}
		if err := k.PutOn(ctx, box, r.branch); err != nil {
			return err
		}
		o.booked(box, repo, r.branch)
	}
	return nil
}

// booked says what it means that the box is on the branch.
func (o *Options) booked(box core.Box, repo core.Repo, branch core.BranchName) {
	switch branch {
	case repo.Branch:
		o.Streams.Note("box %s is on its own branch, and on no other", box.Name)
	case repo.DefaultBranch:
		o.Streams.Warn("%s is the remote's default branch; box %s now pushes to it without a question, until you put it elsewhere", branch, box.Name)
	default:
		o.Streams.Note("box %s now pushes %s without a question as far as it moves forward", box.Name, branch)
	}
}

// git runs one git command in the box. What it prints is the box's text, so
// each line is shown without anything that acts on the terminal.
func (o *Options) git(ctx context.Context, p provider.Provider, box core.Box, at core.BoxPath, words []string) (int, error) {
	out, errOut := output.NewLines(o.Streams.Out), output.NewLines(o.Streams.ErrOut)
	code, err := p.Exec(ctx, box, provider.ExecRequest{
		Argv:   append([]string{"git", "-C", string(at)}, words...),
		Env:    []string{"GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat"},
		Stdout: out, Stderr: errOut,
	})
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, fmt.Errorf("run git in box %s: %w", box.Name, err)
	}
	if err := errors.Join(out.Close(), errOut.Close()); err != nil {
		return 0, fmt.Errorf("write the answer: %w", err)
	}
	return code, nil
}

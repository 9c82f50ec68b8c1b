package forge

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/madarco/agentbox/core"
)

// Bounds on what a box may give one call; a whole request fits an audit entry.
const (
	maxArgs  = 200
	maxBytes = 40 << 10
)

// request is all that has an effect.
type request struct {
	Op         string     `json:"op"`
	Repository Repository `json:"repository"`
	// Target is a pull request (number or branch), a run, or a path of the API.
	Target  string   `json:"target,omitempty"`
	Options []option `json:"options,omitempty"`
	// Text is what is said in the user's name, footer included.
	Text string `json:"text,omitempty"`
}

// option is one option that gh is called with, by its long name.
type option struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// call is an operation with the arguments of a box, understood.
type call struct {
	op op
	request
	// fill is what --fill or --fill-first asks for.
	fill string
}

// parse reads arguments as gh's own parser does (github.com/spf13/pflag): long
// options with "=" or the next argument, short ones glued, with "=" or spaced.
func parse(o op, repo Repository, args []string) (*call, error) {
	size := 0
	for _, arg := range args {
		size += len(arg)
	}
	if len(args) > maxArgs || size > maxBytes {
		return nil, fmt.Errorf("too much: at most %d arguments and %d bytes are taken", maxArgs, maxBytes)
	}
	c := &call{op: o, request: request{Op: o.name, Repository: repo}}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		var err error
		switch {
		case arg == "--":
			for _, rest := range args {
				err = errors.Join(err, c.place(rest))
			}
			return c, err
		case strings.HasPrefix(arg, "--"):
			name, value, glued := strings.Cut(arg, "=")
			args, err = c.option(name, value, glued, args)
		case len(arg) > 1 && arg[0] == '-':
			args, err = c.short(arg[1:], args)
		default:
			err = c.place(arg)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// short reads a group of short options, of which the last may have a value.
func (c *call) short(group string, args []string) ([]string, error) {
	for i := range len(group) {
		name, rest := "-"+group[i:i+1], group[i+1:]
		f, ok := c.op.flag(name)
		if !ok {
			return nil, c.unknown(name)
		}
		if f.value != nil {
			value := strings.TrimPrefix(rest, "=")
			return c.option(name, value, rest != "", args)
		}
		if _, err := c.option(name, "", false, nil); err != nil {
			return nil, err
		}
	}
	return args, nil
}

func (c *call) unknown(name string) error {
	return fmt.Errorf("the option %s is not taken", core.Untrusted(name).Quote())
}

// option takes one option, with its value or the next argument as that.
func (c *call) option(name, value string, glued bool, args []string) ([]string, error) {
	f, ok := c.op.flag(name)
	switch {
	case !ok:
		return nil, c.unknown(name)
	case f.value == nil && glued:
		return nil, fmt.Errorf("%s takes no value", f.long)
	case f.value != nil && !glued:
		if len(args) == 0 {
			return nil, fmt.Errorf("%s needs a value", f.long)
		}
		value, args = args[0], args[1:]
	}
	if f.long == "--method" {
		value = strings.ToUpper(value)
	}
	if f.value != nil {
		if err := f.value(value); err != nil {
			return nil, fmt.Errorf("%s: %w", f.long, err)
		}
	}
	switch {
	case f.ours:
		c.fill = f.long
	case f.body:
		c.Text = value
	case f.many:
		c.Options = append(c.Options, option{f.long, value})
	default:
		c.set(f.long, value)
	}
	return args, nil
}

// set gives an option its one value; the last counts, as with gh.
func (r *request) set(name, value string) {
	for i, o := range r.Options {
		if o.Name == name {
			r.Options[i].Value = value
			return
		}
	}
	r.Options = append(r.Options, option{name, value})
}

// get is the value of an option; ok is false where it was not given.
func (r *request) get(name string) (value string, ok bool) {
	for _, o := range r.Options {
		if o.Name == name {
			return o.Value, true
		}
	}
	return "", false
}

var prURL = regexp.MustCompile(`^https://([^/]+)/([^/]+)/([^/]+)/pull/([0-9]{1,15})$`)

// place takes an argument that is no option.
func (c *call) place(arg string) error {
	if c.op.takes == nothing || c.op.takes == apiAddress || c.Target != "" {
		return fmt.Errorf("the argument %s is one too many", core.Untrusted(arg).Quote())
	}
	if c.op.takes == maybeRun {
		c.Target = arg
		return number(arg)
	}
	if m := prURL.FindStringSubmatch(arg); m != nil && strings.EqualFold(m[1], c.Repository.Host) && c.Repository.is(m[2], m[3]) {
		c.Target = m[4]
		return nil
	}
	c.Target = arg
	if branch(arg) != nil {
		return fmt.Errorf("%s is no number, branch or address of a pull request of %s", core.Untrusted(arg).Quote(), c.Repository)
	}
	return nil
}

// complete fills in what the arguments leave open, from the box's branch, and
// refuses what would be nothing.
func (c *call) complete(head core.BranchName) error {
	switch c.op.takes {
	case branchsPR:
		if c.Target == "" {
			c.Target = string(head)
		}
		if c.Target == "" {
			return errors.New("name the pull request: the box has no branch")
		}
	case namedPR:
		if c.Target == "" {
			return errors.New("name the pull request")
		}
	case maybeRun:
		if _, job := c.get("--job"); c.Target == "" && !job {
			return errors.New("name the run")
		}
	}
	if c.op.needsText && strings.TrimSpace(c.Text) == "" {
		return errors.New("there is nothing to say: give --body")
	}
	switch c.Op {
	case "pr.create":
		return c.completeCreate(head)
	case "pr.review":
		return c.completeReview()
	case "api":
		return c.completeAPI()
	}
	return nil
}

func (c *call) completeCreate(head core.BranchName) error {
	if _, given := c.get("--head"); !given {
		if head == "" {
			return errors.New("the box has no branch to open a pull request of")
		}
		c.set("--head", string(head))
	}
	if title, _ := c.get("--title"); strings.TrimSpace(title) == "" && c.fill == "" {
		return errors.New("give the pull request a --title, or --fill")
	}
	return nil
}

func (c *call) completeReview() error {
	verdicts := 0
	for _, name := range []string{"--approve", "--request-changes", "--comment"} {
		if _, ok := c.get(name); ok {
			verdicts++
		}
	}
	_, approves := c.get("--approve")
	switch {
	case verdicts != 1:
		return errors.New("give one of --approve, --request-changes and --comment")
	case !approves && strings.TrimSpace(c.Text) == "":
		return errors.New("there is nothing to say: give --body")
	}
	return nil
}

// argv is what gh is called with, and what it reads. The table is asked again:
// nothing else passes, whatever the request says.
func (r request) argv() (args []string, stdin []byte, err error) {
	o, ok := findOp(r.Op)
	if !ok || !r.Repository.valid() {
		return nil, nil, fmt.Errorf("request of %s: %w", core.Untrusted(r.Op).Quote(), core.ErrInvalid)
	}
	args = strings.Split(o.name, ".")
	if o.takes == apiAddress {
		args = append(args, r.Target)
	} else {
		args = append(args, "--repo="+r.Repository.String())
	}
	for _, opt := range r.Options {
		f, ok := o.flag(opt.Name)
		switch {
		case !ok && opt != matchHead(opt.Value):
			return nil, nil, fmt.Errorf("option %s: %w", core.Untrusted(opt.Name).Quote(), core.ErrInvalid)
		case ok && f.value == nil:
			args = append(args, opt.Name)
		default:
			args = append(args, opt.Name+"="+opt.Value)
		}
	}
	switch {
	case o.says == bodyFile:
		args, stdin = append(args, bodyFile), []byte(r.Text)
	case o.says != "" && r.Text != "":
		args = append(args, o.says+r.Text)
	}
	if o.takes != apiAddress && r.Target != "" {
		args = append(args, r.Target)
	}
	return args, stdin, nil
}

// matchHead lets a merge through only while the pull request is at a commit.
func matchHead(oid string) option { return option{"--match-head-commit", oid} }

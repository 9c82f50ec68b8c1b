package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/hostexec"
	"github.com/madarco/agentbox/relay/proc"
	"github.com/madarco/agentbox/relay/store"
)

const (
	// Family is the name under which the server finds the method.
	Family = prefix + "*"
	prefix = "gh."

	// exitCheckout answers gh.pr.checkout, which is never done.
	exitCheckout = 13
)

// Programs finds and runs programs of the host; *hostexec.Host does.
type Programs interface {
	Find(ctx context.Context, name string) (hostexec.Program, error)
	Run(ctx context.Context, c hostexec.Command) hostexec.Result
}

// Tokens are the hashes of all tokens that were put into boxes.
type Tokens func(ctx context.Context) (map[store.TokenHash]bool, error)

// Method is relay.Method for all operations of gh.
type Method struct {
	programs Programs
	tokens   Tokens
	now      func() time.Time

	mu    sync.Mutex
	ready map[string]time.Time // by program and host: when gh last answered
}

var _ relay.Method = (*Method)(nil)

// New makes the method.
func New(programs Programs, tokens Tokens) *Method {
	return &Method{programs: programs, tokens: tokens, now: time.Now, ready: map[string]time.Time{}}
}

func refuse(code int, format string, args ...any) *relay.Refusal {
	return &relay.Refusal{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Prepare implements relay.Method.
func (m *Method) Prepare(ctx context.Context, rpc relay.Call) (relay.Action, error) {
	var p wire.ForgeParams
	if err := wire.Decode(rpc.Body, &p); err != nil {
		return relay.Action{}, refuse(wire.ExitBadRequest, "%v", err)
	}
	if rpc.Method == string(policy.PRCheckout) {
		return relay.Action{}, refuse(exitCheckout, "gh pr checkout changes the user's own work tree and is off; in the box, fetch the branch instead: git fetch origin <branch>")
	}
	o, ok := findOp(strings.TrimPrefix(rpc.Method, prefix))
	if !ok {
		return relay.Action{}, refuse(wire.ExitBadRequest, "no operation is called %s", core.Untrusted(rpc.Method).Quote())
	}
	record, ok := rpc.Box.RepoAt(p.Path)
	if !ok {
		return relay.Action{}, refuse(wire.ExitBadRequest, "no repository of the box is at %s", core.Untrusted(p.Path).Quote())
	}
	c, err := understand(o, record, p)
	if err != nil {
		return relay.Action{}, refuse(wire.ExitRefused, "gh %s: %v", strings.ReplaceAll(o.name, ".", " "), err)
	}
	gh, err := m.probed(ctx, c.Repository.Host)
	if err != nil {
		return relay.Action{}, err
	}
	return m.action(ctx, gh, rpc.Box, record, c)
}

// understand makes a call of the params, without asking anybody.
func understand(o op, record core.Repo, p wire.ForgeParams) (*call, error) {
	if record.RemoteURL == "" {
		return nil, errors.New("the repository had no remote when the box was made")
	}
	repo, err := ParseRepository(record.RemoteURL)
	if err != nil {
		return nil, err
	}
	c, err := parse(o, repo, p.Args)
	if err != nil {
		return nil, err
	}
	if o.takes == apiAddress {
		c.Target, err = address(repo, p.Endpoint)
	} else if p.Endpoint != "" {
		err = errors.New("it takes no endpoint")
	}
	if err != nil {
		return nil, err
	}
	return c, c.complete(head(record))
}

// head is the branch that the box is on, as the host knows it.
func head(r core.Repo) core.BranchName {
	name := cmp.Or(r.Sanctioned, r.Branch)
	if branch(string(name)) != nil {
		return ""
	}
	return name
}

// own tells whether a branch is one that the box may push unasked.
func own(r core.Repo, name string) bool {
	return name != "" && (name == string(r.Sanctioned) || name == string(r.Branch))
}

// Do implements relay.Method.
func (m *Method) Do(ctx context.Context, rpc relay.Call, started func(pid int) error) store.Outcome {
	var r request
	err := wire.Decode(rpc.Body, &r)
	var args []string
	var stdin []byte
	if err == nil {
		args, stdin, err = r.argv()
	}
	var gh hostexec.Program
	if err == nil {
		gh, err = m.probed(ctx, r.Repository.Host)
	}
	if err != nil {
		return refused(err)
	}
	c := command(gh, r.Repository, args)
	c.Stdin = stdin
	c.Started = func(pid int) error { return errors.Join(proc.Bound(pid, most), started(pid)) }
	res := m.programs.Run(ctx, c)
	summary := fmt.Sprintf("gh %s in %s ended with %d", strings.ReplaceAll(r.Op, ".", " "), r.Repository, res.ExitCode)
	return store.Outcome{Failed: !res.OK(), Envelope: res.Envelope(), Summary: summary}
}

// writes tells whether a request changes anything on the forge.
func (r request) writes() bool {
	o, _ := findOp(r.Op)
	method, _ := r.get("--method")
	return o.write || method == "POST"
}

// Resume implements relay.Method: what reads is done again. Nobody knows of a
// write whether the forge had it.
func (m *Method) Resume(ctx context.Context, rpc relay.Call) store.Outcome {
	var r request
	if err := wire.Decode(rpc.Body, &r); err != nil {
		return refused(err)
	}
	if !r.writes() {
		return m.Do(ctx, rpc, func(int) error { return nil })
	}
	look := "gh pr view --comments"
	switch {
	case r.Op == "pr.create":
		branch, _ := r.get("--head")
		look = "gh pr list --state all --head " + branch
	case r.Op == "run.rerun":
		look = "gh run list"
	case r.Op == "api":
		look = "gh api " + r.Target
	case r.Target != "":
		look += " " + r.Target
	}
	return refused(fmt.Errorf("the relay was restarted while gh %s ran, and nobody knows whether it was done: look with \"%s\" before you ask again", strings.ReplaceAll(r.Op, ".", " "), look))
}

// refused is the outcome of what was not done.
func refused(err error) store.Outcome {
	code := wire.ExitFailed
	var r *relay.Refusal
	if errors.As(err, &r) {
		code = r.Code
	}
	return store.Outcome{Failed: true, Envelope: wire.Envelope{ExitCode: code, Stderr: "agentbox: " + err.Error() + "\n"}, Summary: err.Error()}
}

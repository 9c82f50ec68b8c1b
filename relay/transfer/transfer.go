// Package transfer copies files of a box to the host. The host pulls them: a
// program in the box packs what is asked for, and all that is believed of its
// answer is what package core/transfer decodes.
//
// Invariants:
//   - What was judged and shown is what is written: the files lie in a spool of
//     the relay's, which no box reaches, and the request binds their hash and
//     their resolved places.
//   - Nothing is written through a link, and no link, device or owner is made.
//   - A copy that fails leaves nothing at its destination.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
	rules "github.com/madarco/agentbox/core/transfer"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
)

const (
	// copyTimeout bounds a pull, however slowly a box sends.
	copyTimeout = 300 * time.Second
	// CopyToHost is the method's name.
	CopyToHost = string(policy.CopyToHost)
)

// ToHost is relay.Method for copies to the host.
type ToHost struct {
	home   core.Home
	user   string // the user's home
	spools *spools
}

var _ relay.Method = (*ToHost)(nil)

// NewToHost makes the method, and removes what an earlier relay left half
// pulled. Questions stand for ttl, 24 hours if zero.
func NewToHost(home core.Home, boxes relay.Boxes, ttl time.Duration) (*ToHost, error) {
	user, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("find the user's home: %w", err)
	}
	if ttl <= 0 {
		ttl = 24 * time.Hour
	}
	s := &spools{home: home, boxes: boxes, kept: ttl + time.Hour, limit: rules.DefaultLimits(), turns: map[string]chan struct{}{}}
	return &ToHost{home: home, user: user, spools: s}, s.sweepAll()
}

// request is all that has an effect.
type request struct {
	// Base is the folder below which no component may be a link.
	Base string `json:"base"`
	// Targets are where each source goes, absolute and resolved.
	Targets []string `json:"targets"`
	// Content is the SHA-256 of all that was pulled.
	Content string `json:"content"`
}

// Prepare implements relay.Method.
func (m *ToHost) Prepare(ctx context.Context, call relay.Call) (relay.Action, error) {
	c, err := rules.Parse(call.Body, true)
	if err != nil {
		return relay.Action{}, &relay.Refusal{Code: wire.ExitBadRequest, Text: err.Error()}
	}
	req, project, err := m.places(call.Box, c)
	if err != nil {
		return relay.Action{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	pulled, err := m.spools.pull(ctx, call.Box, c)
	if err != nil {
		return relay.Action{}, &relay.Refusal{Code: wire.ExitFailed, Text: "copy to the host: " + err.Error()}
	}
	req.Content = pulled.hash
	if err := m.spools.keep(call.Box.ID, pulled, req.key()); err != nil {
		return relay.Action{}, err
	}
	return judge(req, project, pulled), nil
}

// places resolves where the sources go.
func (m *ToHost) places(box core.Box, c rules.Copy) (req request, project string, err error) {
	refuse := func(code int, format string, args ...any) (request, string, error) {
		return request{}, "", &relay.Refusal{Code: code, Text: "copy to the host: " + fmt.Sprintf(format, args...)}
	}
	quoted := core.Untrusted(c.Dest).Quote()
	if project, err = filepath.EvalSymlinks(box.ProjectRoot); err != nil {
		return refuse(wire.ExitFailed, "the project's folder can't be read")
	}
	dest, err := rules.HostPath(c.Dest, m.user, box.ProjectRoot)
	if err != nil {
		return refuse(wire.ExitBadRequest, "%v", err)
	}
	info, err := os.Stat(dest)
	into := len(c.Sources) > 1 || strings.HasSuffix(c.Dest, "/") || err == nil && info.IsDir()
	own, err := filepath.EvalSymlinks(string(m.home))
	if err != nil {
		return refuse(wire.ExitFailed, "the relay's own folder can't be read")
	}
	seen, contained := map[string]bool{}, true
	for _, source := range c.Sources {
		target := dest
		if name := path.Base(path.Clean(source)); into && !strings.HasSuffix(source, "/.") {
			if name == "." || name == ".." || name == "/" || len(name) > 255 {
				return refuse(wire.ExitBadRequest, "the source %s has no name of its own", core.Untrusted(source).Quote())
			}
			target = filepath.Join(dest, name)
		}
		if target, err = resolve(target); err != nil {
			return refuse(wire.ExitRefused, "the destination %s can't be resolved", quoted)
		}
		if _, ok := rules.Within(own, target); ok || seen[target] {
			return refuse(wire.ExitRefused, "the destination %s belongs to AgentBox, or is that of two sources", quoted)
		}
		seen[target] = true
		_, ok := rules.Within(project, target)
		contained = contained && ok
		req.Targets = append(req.Targets, target)
	}
	req.Base = project
	if !contained {
		req.Base = common(req.Targets)
	}
	return req, project, nil
}

// resolve follows the links of what exists of a path. One that leads nowhere is
// an error: what appears there later was not judged.
func resolve(name string) (string, error) {
	tail := ""
	for dir := name; ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(real, tail), nil
		}
		if _, there := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || there == nil {
			return "", fmt.Errorf("resolve %s: %w", dir, err)
		}
		tail = filepath.Join(filepath.Base(dir), tail)
	}
}

// common is the deepest existing folder that holds all targets.
func common(targets []string) string {
	base := filepath.Dir(targets[0])
	for {
		info, err := os.Lstat(base)
		holds := err == nil && info.IsDir()
		for _, t := range targets {
			rel, ok := rules.Within(base, t)
			holds = holds && ok && rel != "."
		}
		if holds || base == filepath.Dir(base) {
			return base
		}
		base = filepath.Dir(base)
	}
}

// judge finds the facts of what was pulled.
func judge(req request, project string, p *pulled) relay.Action {
	facts := policy.ActionFacts{Contained: true}
	var red redlist.List
	var fresh, changed, hits int
	var secret string
	for _, e := range p.entries {
		n, rel := e.Source()
		target := filepath.Join(req.Targets[n], filepath.FromSlash(rel))
		name, ok := rules.Within(project, target)
		if !ok {
			facts.Contained, name = false, strings.TrimPrefix(target, "/")
		}
		info, err := os.Lstat(target)
		switch {
		case e.Folder:
		case err == nil:
			changed++
		default:
			fresh++
		}
		if rules.LooksSecret(name) {
			facts.Secret, secret = true, name
		}
		// The size matters for history, not for what runs.
		change := redlist.Change{Path: filepath.ToSlash(name), Executable: e.Executable && (err != nil || info.Mode()&0o100 == 0)}
		if len(change.Classes()) > 0 {
			facts.RedList = true
			hits++
			red.Add(change)
		}
	}
	show := &wire.ActionApproval{}
	add := func(label, value string) {
		show.Facts = append(show.Facts, wire.ActionFact{Label: label, Value: value})
	}
	for _, target := range req.Targets {
		add("destination", core.Untrusted(target).QuoteMax(maxShown))
	}
	add("files", fmt.Sprintf("%d new, %d changed, %d bytes", fresh, changed, p.bytes))
	if !facts.Contained {
		add("project", "it lies outside of "+core.Untrusted(project).QuoteMax(maxShown))
	}
	if facts.Secret {
		add("looks secret", core.Untrusted(secret).QuoteMax(maxShown))
	}
	for _, g := range red.Groups() {
		for _, name := range g.Paths {
			add(g.What, name.QuoteMax(maxShown))
		}
	}
	if hits > 0 {
		add("can make something run", fmt.Sprintf("%d files or folders", hits))
	}
	add("content", "sha256:"+req.Content)
	return relay.Action{
		Kind: policy.CopyToHost, Facts: facts, Request: req, Show: show,
		Message: fmt.Sprintf("copy %d files to %s on the host", fresh+changed, core.Untrusted(req.Targets[0]).QuoteMax(maxShown)),
	}
}

// maxShown is how much of a path the user is shown, in bytes.
const maxShown = 400

// Do implements relay.Method.
func (m *ToHost) Do(_ context.Context, call relay.Call, _ func(pid int) error) store.Outcome {
	var req request
	if err := wire.Decode(call.Body, &req); err != nil {
		return failed(fmt.Errorf("read the request: %w", err))
	}
	spool, err := os.OpenRoot(m.spools.path(call.Box.ID, req.key()))
	if errors.Is(err, fs.ErrNotExist) {
		return failed(errors.New("what was pulled is gone, or already copied: look at the destination, and ask again"))
	} else if err != nil {
		return failed(err)
	}
	defer spool.Close() //nolint:errcheck // only a handle
	if err := place(spool, req); err != nil {
		return failed(err)
	}
	text := "copied to " + strings.Join(req.Targets, ", ")
	if err := os.RemoveAll(spool.Name()); err != nil {
		text += "; the relay's own copy stays until it is swept"
	}
	return store.Outcome{Envelope: wire.Envelope{Stdout: text + "\n"}, Summary: text}
}

// Resume implements relay.Method. The spool is kept until all is in place, and
// placing it twice is placing it once.
func (m *ToHost) Resume(ctx context.Context, call relay.Call) store.Outcome {
	return m.Do(ctx, call, nil)
}

func failed(err error) store.Outcome {
	text := "copy to the host: " + err.Error()
	return store.Outcome{Failed: true, Envelope: wire.Envelope{ExitCode: wire.ExitFailed, Stderr: text + "\n"}, Summary: text}
}

// Package connect does the operations of package integrations for boxes,
// through the host's own programs.
//
// Invariants:
//   - Only the user's configuration switches an integration on, it is read at
//     each call, and one that can't be read is off.
//   - A program is called with what package integrations built, never with
//     arguments of a box, in an empty folder and with nothing to read.
//   - A write goes out unasked only to a destination in the user's scope, with
//     texts that package outtext finds no trouble in.
package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/outtext"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/integrations"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/hostexec"
	"github.com/madarco/agentbox/relay/store"
)

const (
	// Family is the name under which the server finds the method.
	Family = integrations.MethodPrefix + "*"

	probeTimeout = 10 * time.Second
	probeKept    = time.Minute
	// maxOutput is how much a box gets of each stream, in bytes.
	maxOutput = 4 << 20
)

// Setting is what the user has set about a service in a project.
type Setting struct {
	Enabled bool
	// Scope is the destination that writes may go to unasked; empty is none.
	Scope string
}

// Settings reads what the user has set, anew at each call.
type Settings func(project, service string) (Setting, error)

// Programs finds and runs programs of the host; *hostexec.Host does.
type Programs interface {
	Find(ctx context.Context, name string) (hostexec.Program, error)
	Run(ctx context.Context, c hostexec.Command) hostexec.Result
}

// Method is relay.Method for all integrations.
type Method struct {
	programs Programs
	settings Settings
	services []integrations.Service
	now      func() time.Time

	mu    sync.Mutex
	ready map[string]time.Time // by path: when the program last answered
}

var _ relay.Method = (*Method)(nil)

// New makes the method. Without settings all is off.
func New(programs Programs, settings Settings) *Method {
	return &Method{programs: programs, settings: settings, services: integrations.All(), now: time.Now, ready: map[string]time.Time{}}
}

// request is all that has an effect.
type request struct {
	Service string   `json:"service"`
	Op      string   `json:"op"`
	Argv    []string `json:"argv"`
}

// Prepare implements relay.Method.
func (m *Method) Prepare(ctx context.Context, call relay.Call) (relay.Action, error) {
	s, op, err := m.find(call.Method)
	if err != nil {
		return relay.Action{}, err
	}
	var p wire.IntegrationParams
	if err := wire.Decode(call.Body, &p); err != nil {
		return relay.Action{}, &relay.Refusal{Code: wire.ExitBadRequest, Text: err.Error()}
	}
	if !hasProject(call.Box, p.Path) {
		return relay.Action{}, &relay.Refusal{Code: wire.ExitBadRequest, Text: "no project of the box is at " + core.Untrusted(p.Path).Quote()}
	}
	c, err := op.Parse(p.Args)
	if err != nil {
		return relay.Action{}, &relay.Refusal{Code: wire.ExitRefused, Text: fmt.Sprintf("%s %s: %v", s.Name, op.Name, err)}
	}
	set, err := m.enabled(call.Box, s)
	if err != nil {
		return relay.Action{}, err
	}
	if _, err := s.Environ(); err != nil {
		return relay.Action{}, &relay.Refusal{Code: wire.ExitEnvironment, Text: err.Error()}
	}
	if _, err := m.probed(ctx, s); err != nil {
		return relay.Action{}, err
	}
	if op.Default != nil && set.Scope != "" {
		op.Default(c, set.Scope)
	}
	return action(s, op, c, set.Scope), nil
}

// find reads the name of a method.
func (m *Method) find(method string) (integrations.Service, integrations.Op, error) {
	name, opName, ok := integrations.ParseMethod(method)
	if !ok {
		return integrations.Service{}, integrations.Op{}, &relay.Refusal{Code: wire.ExitBadRequest, Text: "method " + core.Untrusted(method).Quote() + " has not the form integration.<service>.<operation>"}
	}
	i := slices.IndexFunc(m.services, func(s integrations.Service) bool { return s.Name == name })
	if i < 0 {
		return integrations.Service{}, integrations.Op{}, &relay.Refusal{Code: wire.ExitBadRequest, Text: "no integration is called " + core.Untrusted(name).Quote()}
	}
	s := m.services[i]
	op, ok := s.Op(opName)
	if !ok {
		return s, op, &relay.Refusal{Code: wire.ExitRefused, Text: fmt.Sprintf("%s has no operation %s; it has: %s", s.Name, core.Untrusted(opName).Quote(), strings.Join(s.OpNames(), ", "))}
	}
	return s, op, nil
}

// hasProject tells whether a path in the box belongs to a project of the user's.
func hasProject(box core.Box, dir string) bool {
	if _, ok := box.RepoAt(dir); ok {
		return true
	}
	plain := box // a box of a folder without a repository
	plain.Repos = []core.Repo{{BoxPath: core.WorkspacePath}}
	_, ok := plain.RepoAt(dir)
	return ok && len(box.Repos) == 0 && box.ProjectRoot != ""
}

// project is the folder that the user's settings are about.
func project(box core.Box) string {
	if box.ProjectRoot != "" {
		return box.ProjectRoot
	}
	root, _ := box.Root()
	return root.WorkTree
}

// enabled reads the user's settings.
func (m *Method) enabled(box core.Box, s integrations.Service) (Setting, error) {
	if m.settings == nil {
		return Setting{}, off(s, "")
	}
	set, err := m.settings(project(box), s.Name)
	if err != nil {
		return Setting{}, off(s, "; the user's configuration can't be read")
	}
	if !set.Enabled {
		return Setting{}, off(s, "")
	}
	return set, nil
}

func off(s integrations.Service, why string) *relay.Refusal {
	return &relay.Refusal{Code: wire.ExitRefused, Text: fmt.Sprintf("the integration %s is off for this project%s; the user switches it on in config.yaml on the host: integrations.%s.enabled", s.Name, why, s.Name)}
}

// probed finds the program and sees that it answers.
func (m *Method) probed(ctx context.Context, s integrations.Service) (hostexec.Program, error) {
	missing := &relay.Refusal{Code: wire.ExitNotFound, Text: fmt.Sprintf("the host has no %s, which speaks to %s; the user installs it with: %s", s.Program, s.Name, s.Detect.Install)}
	p, err := m.programs.Find(ctx, s.Program)
	if errors.Is(err, hostexec.ErrNotFound) {
		return p, missing
	} else if err != nil {
		return p, err
	}
	m.mu.Lock()
	last, seen := m.ready[p.Path()]
	m.mu.Unlock()
	if age := m.now().Sub(last); seen && age >= 0 && age < probeKept {
		return p, nil
	}
	if r := m.programs.Run(ctx, hostexec.Command{Program: p, Args: s.Detect.Version, Timeout: probeTimeout, MaxOutput: 4 << 10}); !r.OK() {
		missing.Text = fmt.Sprintf("the host's %s does not answer %s (exit code %d); the user installs it with: %s", s.Program, strings.Join(s.Detect.Version, " "), r.ExitCode, s.Detect.Install)
		return p, missing
	}
	m.mu.Lock()
	m.ready[p.Path()] = m.now()
	m.mu.Unlock()
	return p, nil
}

// action is what the user may be asked about.
func action(s integrations.Service, op integrations.Op, c *integrations.Call, scope string) relay.Action {
	a := relay.Action{
		Kind: policy.IntegrationRead, Request: request{Service: s.Name, Op: op.Name, Argv: c.Argv()},
		Message: fmt.Sprintf("%s: %s", s.Name, op.Summary),
	}
	if !op.Write {
		return a
	}
	a.Kind = policy.IntegrationWrite
	a.Facts.Known = s.Within(c, scope)
	show := &wire.ActionApproval{Facts: []wire.ActionFact{{Label: "program", Value: s.Program + " " + strings.Join(op.Argv, " ")}}}
	for _, place := range c.Places() {
		show.Facts = append(show.Facts, wire.ActionFact{Label: "destination", Value: core.Untrusted(place).Quote()})
	}
	show.Facts = append(show.Facts, wire.ActionFact{Label: "your scope", Value: inScope(s, scope, a.Facts.Known)})
	names, texts := c.Texts()
	for i, text := range texts {
		if why := outtext.Trouble(text); why != "" {
			a.Facts.Speaks = true
			show.Facts = append(show.Facts, wire.ActionFact{Label: names[i], Value: why})
		}
		show.Texts = append(show.Texts, wire.ActionText{Label: names[i], Text: core.Untrusted(text)})
	}
	show.Texts = append(show.Texts, wire.ActionText{Label: "arguments", Text: core.Untrusted(strings.Join(c.Argv(), "\n"))})
	a.Show = show
	return a
}

func inScope(s integrations.Service, scope string, within bool) string {
	key := "integrations." + s.Name + "." + s.Scope.Key
	switch {
	case scope == "":
		return key + " is not set"
	case within:
		return key + " holds it"
	}
	return key + " does not hold it"
}

// Do implements relay.Method.
func (m *Method) Do(ctx context.Context, call relay.Call, started func(pid int) error) store.Outcome {
	req, s, _, err := m.read(call)
	if err == nil {
		_, err = m.enabled(call.Box, s) // it may be a day later
	}
	var env []string
	if err == nil {
		env, err = s.Environ()
	}
	var p hostexec.Program
	if err == nil {
		p, err = m.probed(ctx, s)
	}
	if err != nil {
		return refused(err)
	}
	r := m.programs.Run(ctx, hostexec.Command{
		Program: p, Args: req.Argv, Inherit: []string{s.EnvPrefix() + "*"}, Env: append(env, "NO_COLOR=1"),
		MaxOutput: maxOutput, Started: started,
	})
	summary := fmt.Sprintf("%s %s ended with %d", s.Name, req.Op, r.ExitCode)
	return store.Outcome{Failed: !r.OK(), Envelope: r.Envelope(), Summary: summary}
}

func (m *Method) read(call relay.Call) (request, integrations.Service, integrations.Op, error) {
	var req request
	if err := wire.Decode(call.Body, &req); err != nil {
		return req, integrations.Service{}, integrations.Op{}, fmt.Errorf("read the request: %w", err)
	}
	s, op, err := m.find(integrations.MethodPrefix + req.Service + "." + req.Op)
	return req, s, op, err
}

// Resume implements relay.Method: what reads is done again. Nobody knows of a
// write whether the service had it.
func (m *Method) Resume(ctx context.Context, call relay.Call) store.Outcome {
	req, s, op, err := m.read(call)
	switch {
	case err != nil:
		return refused(err)
	case op.Write:
		return refused(fmt.Errorf("the relay was restarted while %s %s ran: look in %s whether it was done before you ask again", s.Name, req.Op, s.Name))
	}
	return m.Do(ctx, call, func(int) error { return nil })
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

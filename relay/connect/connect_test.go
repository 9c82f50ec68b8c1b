package connect

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/integrations"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/hostexec"
)

// world is a method whose programs are stand-ins that write down how they were
// called.
type world struct {
	*Method
	dir      string
	set      Setting
	setErr   error
	asked    []string
	box      core.Box
	pastProb time.Duration
}

// standIn writes down arguments, environment, folder and what it could read.
const standIn = `#!/bin/sh
dir=$(dirname "$0")
[ "$1" = --version ] && { echo . >>"$dir/probes"; [ -e "$dir/broken" ] && exit 3; echo 1.2.3; exit 0; }
printf '%s|' "$@" >"$dir/argv"
env >"$dir/env"
ls -A >"$dir/files"
cat >"$dir/stdin"
echo answer
echo trouble >&2
exit $(cat "$dir/code")
`

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), set: Setting{Enabled: true}}
	t.Setenv("PATH", w.dir+":/usr/bin:/bin")
	t.Setenv("NOTION_API_TOKEN", "n")
	t.Setenv("LINEAR_API_KEY", "l")
	w.box = core.Box{ID: "b0000001", ProjectRoot: "/project", Repos: []core.Repo{{Kind: "root", BoxPath: core.WorkspacePath, WorkTree: "/project"}}}
	for _, name := range []string{"ntn", "linear"} {
		w.write(t, name, standIn)
	}
	w.write(t, "code", "0")
	host, err := hostexec.New(filepath.Join(t.TempDir(), "calls"), func(context.Context) ([]core.Box, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	w.Method = New(host, func(project, service string) (Setting, error) {
		w.asked = append(w.asked, project+" "+service)
		return w.set, w.setErr
	})
	start := time.Now()
	w.now = func() time.Time { return start.Add(w.pastProb) }
	return w
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // programs
		t.Fatal(err)
	}
}

func (w *world) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func (w *world) prepare(t *testing.T, method string, args ...string) (relay.Action, error) {
	t.Helper()
	body, err := json.Marshal(wire.IntegrationParams{Path: "/workspace", Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return w.Prepare(t.Context(), relay.Call{Box: w.box, Method: method, Body: body})
}

// call is what the relay makes of a prepared action.
func (w *world) call(t *testing.T, method string, a relay.Action) relay.Call {
	t.Helper()
	body, err := json.Marshal(a.Request)
	if err != nil {
		t.Fatal(err)
	}
	return relay.Call{Box: w.box, Method: method, Body: body}
}

func code(err error) int {
	var r *relay.Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return -1
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name, method, body string
		change             func(t *testing.T, w *world)
		code               int
		says               string
	}{
		{name: "no form", method: "integration.notion.", code: 64, says: "form"},
		{name: "dots", method: "integration.notion.page..create", code: 64, says: "form"},
		{name: "upper case", method: "integration.NOTION.api", code: 64, says: "form"},
		{name: "service", method: "integration.jira.api", code: 64, says: "jira"},
		{name: "operation", method: "integration.linear.issue.delete", code: 65, says: "issue.comment"},
		{name: "unknown key", body: `{"path":"/workspace","env":{}}`, code: 64, says: "unknown key"},
		{name: "no JSON", body: `[`, code: 64},
		{name: "a path outside", body: `{"path":"/etc"}`, code: 64, says: "/etc"},
		{name: "no project", change: func(_ *testing.T, w *world) { w.box = core.Box{} }, code: 64, says: "project"},
		{name: "arguments", body: `{"args":["mutation{a}"]}`, code: 65, says: "only reads"},
		{name: "arguments while off", body: `{"args":["mutation{a}"]}`, change: func(_ *testing.T, w *world) { w.set.Enabled = false }, code: 65, says: "only reads"},
		{name: "off", change: func(_ *testing.T, w *world) { w.set.Enabled = false }, code: 65, says: "integrations.linear.enabled"},
		{name: "no settings", change: func(_ *testing.T, w *world) { w.settings = nil }, code: 65, says: "integrations.linear.enabled"},
		{name: "unreadable settings", change: func(_ *testing.T, w *world) { w.setErr = errors.New("cut") }, code: 65, says: "can't be read"},
		{name: "environment", change: func(_ *testing.T, w *world) {
			s, _ := integrations.Find("linear")
			s.Env = map[string]string{"PATH": "/tmp"}
			w.services = []integrations.Service{s}
		}, code: 78, says: "LINEAR_*"},
		{name: "missing", change: func(t *testing.T, w *world) { remove(t, w, "linear") }, code: 127, says: "@schpet/linear-cli"},
		{name: "broken", change: func(t *testing.T, w *world) { w.write(t, "broken", "") }, code: 127, says: "exit code 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if test.change != nil {
				test.change(t, w)
			}
			method, body := test.method, test.body
			if method == "" {
				method = "integration.linear.api"
			}
			if body == "" {
				body = `{"args":["{a}"]}`
			}
			_, err := w.Prepare(t.Context(), relay.Call{Box: w.box, Method: method, Body: json.RawMessage(body)})
			if code(err) != test.code || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %d, %v", code(err), err)
			}
			if argv := w.read(t, "argv"); argv != "" {
				t.Errorf("it ran with %q", argv)
			}
		})
	}
}

func remove(t *testing.T, w *world, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestReadsRunTheProgram(t *testing.T) {
	w := newWorld(t)
	w.write(t, "code", "4")
	const method = "integration.notion.api"
	a, err := w.prepare(t, method, "v1/search", "-d", "{}")
	if err != nil || a.Kind != policy.IntegrationRead || policy.Decide(a.Kind, a.Facts, policy.Settings{}).Verdict != policy.Allow {
		t.Fatalf("got %+v, %v", a, err)
	}
	var pid int
	out := w.Do(t.Context(), w.call(t, method, a), func(p int) error { pid = p; return nil })
	if want := (wire.Envelope{ExitCode: 4, Stdout: "answer\n", Stderr: "trouble\n"}); out.Envelope != want || !out.Failed || pid == 0 {
		t.Errorf("got %+v, process %d", out, pid)
	}
	if argv := w.read(t, "argv"); argv != "api|v1/search|--method=POST|--data={}|" {
		t.Errorf("called with %s", argv)
	}
	if w.read(t, "stdin") != "" || w.read(t, "files") != "" {
		t.Errorf("it had %q to read, and %q", w.read(t, "stdin"), w.read(t, "files"))
	}
	env := strings.Split(w.read(t, "env"), "\n")
	if !slices.Contains(env, "NOTION_API_TOKEN=n") || slices.Contains(env, "LINEAR_API_KEY=l") {
		t.Errorf("its environment is %q", env)
	}
	if !slices.Contains(w.asked, "/project notion") {
		t.Errorf("asked about %q", w.asked)
	}
	if out := w.Resume(t.Context(), w.call(t, method, a)); out.Envelope.ExitCode != 4 {
		t.Errorf("a read after a restart: %+v", out)
	}
}

// Whatever a box sends as the request of something approved, Do takes only what
// Prepare made.
func TestRequestsOfOtherFormsDoNothing(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{"", "{}", "[", `{"service":"jira","op":"api"}`, `{"service":"notion","op":"x"}`, `{"service":"notion","op":"whoami","argv":["whoami"],"env":1}`} {
		call := relay.Call{Box: w.box, Method: "integration.notion.whoami", Body: json.RawMessage(body)}
		if out := w.Do(t.Context(), call, func(int) error { return nil }); !out.Failed || w.read(t, "argv") != "" {
			t.Errorf("%s: %+v", body, out)
		}
		if out := w.Resume(t.Context(), call); !out.Failed || w.read(t, "argv") != "" {
			t.Errorf("%s: %+v", body, out)
		}
	}
}

func TestWhatGoesOutUnasked(t *testing.T) {
	const page = "0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		name, method, scope string
		args                []string
		allowed             bool
		argv                string
	}{
		{name: "in scope", method: "linear.issue.comment", scope: "ENG", args: []string{"ENG-1", "--body", "done"}, allowed: true},
		{name: "no scope", method: "linear.issue.comment", args: []string{"ENG-1", "--body", "done"}},
		{name: "another team", method: "linear.issue.comment", scope: "ENG", args: []string{"OPS-1", "--body", "done"}},
		{name: "a mention", method: "linear.issue.comment", scope: "ENG", args: []string{"ENG-1", "--body", "see @bob"}},
		{name: "a command", method: "linear.issue.comment", scope: "ENG", args: []string{"ENG-1", "--body", "x\n/close"}},
		{name: "a secret", method: "linear.issue.create", scope: "ENG", args: []string{"--title", "x", "--description", "ghp_" + strings.Repeat("a", 36)}},
		{name: "the scope's team", method: "linear.issue.create", scope: "ENG", args: []string{"--title", "x"}, allowed: true, argv: "--team=ENG"},
		{name: "no team", method: "linear.issue.create", args: []string{"--title", "x"}},
		{name: "below the root", method: "notion.page.create", scope: page, args: []string{"--content", "x"}, allowed: true, argv: "--parent=page:" + page},
		{name: "the root", method: "notion.page.update", scope: page, args: []string{page, "--content", "x"}, allowed: true},
		{name: "another page", method: "notion.page.update", scope: page, args: []string{strings.Repeat("f", 32), "--content", "x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.set.Scope = test.scope
			a, err := w.prepare(t, "integration."+test.method, test.args...)
			if err != nil || a.Kind != policy.IntegrationWrite {
				t.Fatalf("got %+v, %v", a, err)
			}
			if got := policy.Decide(a.Kind, a.Facts, policy.Settings{Safe: true}).Verdict; (got == policy.Allow) != test.allowed {
				t.Errorf("it is decided %v on %+v", got, a.Facts)
			}
			if got := policy.Decide(a.Kind, a.Facts, policy.Settings{}).Verdict; got != policy.Ask {
				t.Errorf("without the safe subset it is decided %v", got)
			}
			argv := a.Request.(request).Argv
			if test.argv != "" && !slices.Contains(argv, test.argv) {
				t.Errorf("called with %q", argv)
			}
			shown := ""
			for _, text := range a.Show.Texts {
				shown += string(text.Text) + "\n"
			}
			for _, arg := range argv {
				if !strings.Contains(shown, arg) {
					t.Errorf("%q is not shown", arg)
				}
			}
			for _, fact := range append(a.Show.Facts, wire.ActionFact{Value: a.Message}) {
				for _, arg := range test.args {
					if strings.ContainsAny(arg, " \n@") && strings.Contains(fact.Value, arg) {
						t.Errorf("text of the box stands in %q", fact.Value)
					}
				}
			}
			if out := w.Resume(t.Context(), w.call(t, "integration."+test.method, a)); !out.Failed || w.read(t, "argv") != "" {
				t.Errorf("a write after a restart: %+v", out)
			}
		})
	}
}

// A yes may come a day later, and the user may have switched it off since.
func TestSwitchedOffBetweenQuestionAndAnswer(t *testing.T) {
	w := newWorld(t)
	const method = "integration.linear.issue.comment"
	a, err := w.prepare(t, method, "ENG-1", "--body=x")
	if err != nil {
		t.Fatal(err)
	}
	w.set.Enabled = false
	if out := w.Do(t.Context(), w.call(t, method, a), func(int) error { return nil }); out.Envelope.ExitCode != 65 || w.read(t, "argv") != "" {
		t.Errorf("got %+v", out)
	}
}

func TestAProgramIsProbedOncePerMinute(t *testing.T) {
	w := newWorld(t)
	for _, step := range []struct {
		after  time.Duration
		probes int
	}{{0, 1}, {time.Second, 1}, {59 * time.Second, 1}, {time.Minute, 2}, {time.Minute + time.Second, 2}} {
		w.pastProb = step.after
		if _, err := w.prepare(t, "integration.linear.whoami"); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(w.read(t, "probes"), "."); got != step.probes {
			t.Errorf("after %s it was probed %d times, want %d", step.after, got, step.probes)
		}
	}
	w.write(t, "broken", "")
	for range 2 { // a failure is not kept
		w.pastProb = time.Hour
		if _, err := w.prepare(t, "integration.linear.whoami"); code(err) != 127 {
			t.Errorf("got %v", err)
		}
	}
	remove(t, w, "broken")
	if _, err := w.prepare(t, "integration.linear.whoami"); err != nil {
		t.Error(err)
	}
}

func TestABoxOfAPlainFolderHasAProject(t *testing.T) {
	w := newWorld(t)
	w.box.Repos = nil
	if _, err := w.prepare(t, "integration.linear.whoami"); err != nil {
		t.Error(err)
	}
}

func FuzzPrepare(f *testing.F) {
	f.Add("integration.linear.api", []byte(`{"path":"/workspace","args":["{a}"]}`))
	f.Add("integration.notion.", []byte(`{}`))
	f.Fuzz(func(t *testing.T, method string, body []byte) {
		m := New(nil, nil) // off: nothing runs
		box := core.Box{ProjectRoot: "/p"}
		a, err := m.Prepare(t.Context(), relay.Call{Box: box, Method: method, Body: body})
		if c := code(err); c != 64 && c != 65 {
			t.Errorf("%q: %+v, %v", method, a, err)
		}
	})
}

func TestExamine(t *testing.T) {
	s, _ := integrations.Find("linear")
	w := newWorld(t)
	if version, err := Examine(t.Context(), w.programs, s); err != nil || version != "1.2.3" || w.read(t, "argv") != "auth|whoami|" || w.read(t, "stdin") != "" {
		t.Errorf("got %q, %v", version, err)
	}
	w.write(t, "code", "1")
	if _, err := Examine(t.Context(), w.programs, s); !errors.Is(err, ErrLoggedOut) {
		t.Errorf("got %v", err)
	}
	w.write(t, "broken", "")
	if _, err := Examine(t.Context(), w.programs, s); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v", err)
	}
	remove(t, w, "linear")
	if _, err := Examine(t.Context(), w.programs, s); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v", err)
	}
}

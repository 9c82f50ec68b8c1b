package forge

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/hostexec"
	"github.com/madarco/agentbox/relay/server"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/memory"
)

const oid = "1111111111111111111111111111111111111111"

// standIn writes down how it was called, and answers with the file that is named
// like its arguments.
const standIn = `#!/bin/sh
dir=$(dirname "$0")
case "$1" in
--version) echo . >>"$dir/probes"; exit $(cat "$dir/version-code");;
auth) printf '%s|' "$@" >"$dir/auth"; exit $(cat "$dir/auth-code");;
esac
printf '%s|' "$@" >>"$dir/log"; echo >>"$dir/log"
env >"$dir/env"
pwd >"$dir/cwd"; ls -A >"$dir/files"
cat >"$dir/stdin"
{ ulimit -v; ulimit -t; } >"$dir/limits"
name=$(printf '%s_' "$1" "$2" | tr / .)
[ -e "$dir/$name" ] && exec cat "$dir/$name"
echo answer; echo trouble >&2
exit $(cat "$dir/code")
`

// world is a relay whose gh is a stand-in.
type world struct {
	*Method
	srv   *server.Server
	st    *memory.Store
	dir   string
	box   core.Box
	token string
	past  time.Duration
}

func newWorld(t *testing.T, change ...func(*server.Config)) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), st: memory.New(memory.Options{}), token: core.NewToken()}
	t.Setenv("PATH", w.dir+":/usr/bin:/bin")
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_HOST"} {
		t.Setenv(name, "")
	}
	w.write(t, "gh", standIn)
	for _, name := range []string{"code", "version-code", "auth-code"} {
		w.write(t, name, "0")
	}
	w.box = core.Box{ID: "b0000001", Name: "one", Repos: []core.Repo{shop}}
	w.start(t, change...)
	return w
}

// start makes the relay around the method.
func (w *world) start(t *testing.T, change ...func(*server.Config)) {
	t.Helper()
	host, err := hostexec.New(filepath.Join(t.TempDir(), "calls"), func(context.Context) ([]core.Box, error) { return []core.Box{w.box}, nil })
	if err != nil {
		t.Fatal(err)
	}
	w.Method = New(host, func(ctx context.Context) (map[store.TokenHash]bool, error) {
		return map[store.TokenHash]bool{store.HashToken(w.token): true}, nil
	})
	begin := time.Now()
	w.now = func() time.Time { return begin.Add(w.past) }
	cfg := server.Config{
		Home: core.Home(t.TempDir()), Store: w.st, Policy: policy.Settings{Safe: true}, Log: slog.New(slog.DiscardHandler),
		Methods: map[string]relay.Method{Family: w.Method},
	}
	for _, c := range change {
		c(&cfg)
	}
	w.srv = server.New(cfg)
	t.Cleanup(func() {
		w.srv.Close(context.WithoutCancel(t.Context()))
		_ = w.st.Close()
	})
	if _, err := w.st.RegisterBox(t.Context(), w.box, store.HashToken(w.token)); err != nil {
		t.Fatal(err)
	}
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // a program among them
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

func params(endpoint string, args ...string) json.RawMessage {
	body, _ := json.Marshal(wire.ForgeParams{Path: "/workspace", Endpoint: endpoint, Args: args})
	return body
}

// dispatch asks as a box does.
func (w *world) dispatch(ctx context.Context, method string, body json.RawMessage) (wire.Envelope, error) {
	return w.srv.Dispatch(ctx, w.box, wire.Request{Method: method, Params: body})
}

// asked dispatches what waits for the user, and returns the question; wait ends
// the call with the answer.
func (w *world) asked(t *testing.T, method string, body json.RawMessage) (store.Approval, func(yes bool) wire.Envelope) {
	t.Helper()
	type result struct {
		env wire.Envelope
		err error
	}
	done := make(chan result, 1)
	changed, stop := w.st.Watch(store.PendingTopic)
	defer stop()
	go func() {
		env, err := w.dispatch(t.Context(), method, body)
		done <- result{env, err}
	}()
	select {
	case <-changed:
	case r := <-done:
		t.Fatalf("%s was not asked about: %+v, %v", method, r.env, r.err)
	}
	list, err := w.st.Approvals(t.Context(), w.box.ID, wire.Pending)
	if err != nil || len(list) != 1 {
		t.Fatalf("questions %+v, %v", list, err)
	}
	return list[0], func(yes bool) wire.Envelope {
		t.Helper()
		w.answer(t, list[0], yes)
		r := <-done
		if r.err != nil {
			t.Fatal(r.err)
		}
		return r.env
	}
}

func (w *world) must(t *testing.T, method, endpoint string, args ...string) wire.Envelope {
	t.Helper()
	env, err := w.dispatch(t.Context(), method, params(endpoint, args...))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func (w *world) answer(t *testing.T, a store.Approval, yes bool) {
	t.Helper()
	if _, err := w.st.AnswerApproval(t.Context(), a.ID, store.Reply{Yes: yes, By: "operator uid=1 pid=2"}); err != nil {
		t.Fatal(err)
	}
}

const footer = "From the AgentBox box `one`."

func TestGhIsCalledForTheBox(t *testing.T) {
	w := newWorld(t)
	t.Setenv("AGENTBOX_SECRET", "x")
	t.Setenv("GH_ENTERPRISE_TOKEN", "for-another-host")
	w.write(t, "code", "3")
	env := w.must(t, "gh.pr.create", "", "--title", "T", "--body", "two\nlines\n")
	if want := (wire.Envelope{ExitCode: 3, Stdout: "answer\n", Stderr: "trouble\n"}); env != want {
		t.Errorf("got %+v", env)
	}
	if got, want := w.read(t, "log"), "pr|create|--repo=github.com/o/r|--title=T|--head=agentbox/one|--body-file=-|\n"; got != want {
		t.Errorf("called with %s", got)
	}
	if got := w.read(t, "stdin"); got != "two\nlines\n\n---\n"+footer {
		t.Errorf("it read %q", got)
	}
	if w.read(t, "files") != "" || strings.TrimSpace(w.read(t, "cwd")) == "/nowhere" {
		t.Errorf("it ran in %q with %q", w.read(t, "cwd"), w.read(t, "files"))
	}
	vars := strings.Split(w.read(t, "env"), "\n")
	for _, want := range []string{"GH_PROMPT_DISABLED=1", "NO_COLOR=1", "GH_REPO=github.com/o/r", "GH_HOST=github.com", "GH_BROWSER=true", "GH_PAGER=cat", "GH_EDITOR=false"} {
		if !slices.Contains(vars, want) {
			t.Errorf("%s is missing in %q", want, vars)
		}
	}
	if all := strings.Join(vars, "\n"); strings.Contains(all, "AGENTBOX_SECRET") || strings.Contains(all, "for-another-host") {
		t.Errorf("its environment is %q", vars)
	}
	if got := w.read(t, "limits"); runtime.GOOS == "linux" && got != "4194304\n60\n" {
		t.Errorf("its bounds are %q", got)
	}
	if w.read(t, "auth") != "auth|status|--hostname=github.com|" {
		t.Errorf("its login was asked for with %q", w.read(t, "auth"))
	}
}

// TestAnEnterpriseTokenGoesToItsHost: no other host that a remote names is sent it.
func TestAnEnterpriseTokenGoesToItsHost(t *testing.T) {
	for host, want := range map[string][]string{
		"github.com": {"GH_TOKEN", "GITHUB_TOKEN"}, "x.ghe.com": {"GH_TOKEN", "GITHUB_TOKEN"}, "gitlab.com": nil, "github.com.evil.example": nil,
		"ghe.x": {"GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"},
	} {
		t.Setenv("GH_HOST", "GHE.x")
		if got := tokenNames(host); !slices.Equal(got, want) {
			t.Errorf("%s gets %q", host, got)
		}
	}
}

func TestWhatIsNotDone(t *testing.T) {
	for _, row := range []struct {
		name, method, body string
		change             func(t *testing.T, w *world)
		code               int
		says               string
	}{
		{name: "operation", method: "gh.pr.delete", code: 64, says: "gh.pr.delete"},
		{name: "gh.run.watch", method: "gh.run.watch", code: 64},
		{name: "checkout", method: "gh.pr.checkout", body: `{"args":["7"]}`, code: 13, says: "git fetch"},
		{name: "a path outside", body: `{"path":"/etc"}`, code: 64, says: "/etc"},
		{name: "unknown key", body: `{"repo":"x/y"}`, code: 64},
		{name: "no JSON", body: `[`, code: 64},
		{name: "arguments", body: `{"args":["--web"]}`, code: 65, says: "--web"},
		{name: "no remote", change: func(_ *testing.T, w *world) {
			w.box.Repos = []core.Repo{{BoxPath: "/workspace", Branch: "agentbox/one"}}
		}, code: 65, says: "no remote"},
		{name: "a remote in a folder", change: func(_ *testing.T, w *world) {
			w.box.Repos = []core.Repo{{BoxPath: "/workspace", Branch: "agentbox/one", RemoteURL: "/srv/r.git"}}
		}, code: 65, says: "/srv/r.git"},
		{name: "no branch", method: "gh.pr.create", body: `{"args":["--title","t","--fill"]}`, change: func(_ *testing.T, w *world) {
			w.box.Repos = []core.Repo{{BoxPath: "/workspace", RemoteURL: shop.RemoteURL}}
		}, code: 65, says: "no branch"},
		{name: "missing", change: func(t *testing.T, w *world) {
			t.Helper()
			if err := os.Remove(filepath.Join(w.dir, "gh")); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", w.dir)
			w.start(t)
		}, code: 127, says: "cli.github.com"},
		{name: "broken", change: func(t *testing.T, w *world) { t.Helper(); w.write(t, "version-code", "9") }, code: 9, says: "--version"},
		{name: "logged out", change: func(t *testing.T, w *world) { t.Helper(); w.write(t, "auth-code", "1") }, code: 4, says: "gh auth login"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			if row.change != nil {
				row.change(t, w)
			}
			method, body := row.method, row.body
			if method == "" {
				method = "gh.pr.view"
			}
			env, err := w.dispatch(t.Context(), method, json.RawMessage(body))
			if err != nil || env.ExitCode != row.code || !strings.Contains(env.Stderr, row.says) {
				t.Errorf("got %+v, %v", env, err)
			}
			if log := w.read(t, "log"); log != "" {
				t.Errorf("gh was called with %s", log)
			}
		})
	}
}

func TestGhIsProbedOncePerMinute(t *testing.T) {
	w := newWorld(t)
	for _, step := range []struct {
		after  time.Duration
		probes int
	}{{0, 1}, {59 * time.Second, 1}, {time.Minute, 2}, {time.Minute + time.Second, 2}} {
		w.past = step.after
		w.must(t, "gh.pr.view", "", "7")
		if got := strings.Count(w.read(t, "probes"), "."); got != step.probes {
			t.Errorf("after %s it was probed %d times, want %d", step.after, got, step.probes)
		}
	}
	w.past = time.Hour
	w.write(t, "auth-code", "1")
	t.Setenv("GITHUB_TOKEN", "x") // a token is a login
	if env := w.must(t, "gh.pr.view", "", "7"); env.ExitCode != 0 {
		t.Errorf("got %+v", env)
	}
}

// A box's token goes out in no form, and the host has its hash alone.
func TestWhatIsAskedAbout(t *testing.T) {
	w := newWorld(t)
	token := w.token
	wrapped := base64.StdEncoding.EncodeToString([]byte("xy" + token))
	w.write(t, "api_repos.o.r.actions.runs.5_", `{"head_branch":"agentbox/one","head_repository":{"full_name":"o/r"}}`)
	w.write(t, "api_repos.o.r.actions.runs.6_", `{"head_branch":"main","head_repository":{"full_name":"o/r"}}`)
	w.write(t, "api_repos.o.r.actions.runs.7_", `{"head_branch":"agentbox/one","head_repository":{"full_name":"fork/r"}}`)
	w.write(t, "api_repos.o.r.actions.jobs.8_", `{"run_id":6}`)
	for _, row := range []struct {
		name, method, endpoint string
		args                   []string
		asked                  bool
	}{
		{"own branch", "gh.pr.create", "", []string{"--title", "T"}, false},
		{"own branch, named", "gh.pr.create", "", []string{"--title", "T", "--head=agentbox/one"}, false},
		{"another branch", "gh.pr.create", "", []string{"--title", "T", "--head=main"}, true},
		{"a mention", "gh.pr.create", "", []string{"--title", "T", "--body", "see @bob"}, true},
		{"a mention in the title", "gh.pr.create", "", []string{"--title", "@bob"}, true},
		{"a reviewer", "gh.pr.create", "", []string{"--title", "T", "--reviewer=bob"}, true},
		{"a label", "gh.pr.create", "", []string{"--title", "T", "--label=automerge"}, true},
		{"a comment", "gh.pr.comment", "", []string{"7", "--body", "done"}, false},
		{"a command", "gh.pr.comment", "", []string{"7", "--body", "x\n/merge"}, true},
		{"a secret", "gh.pr.comment", "", []string{"7", "--body", "ghp_" + strings.Repeat("a", 36)}, true},
		{"the token", "gh.pr.comment", "", []string{"7", "--body", "x" + token + "y"}, true},
		{"the token among digits", "gh.pr.comment", "", []string{"7", "--body", "0123" + token + "abc"}, true},
		{"the token in hex", "gh.pr.comment", "", []string{"7", "--body", hex.EncodeToString([]byte("a" + token))}, true},
		{"the token in base64", "gh.pr.comment", "", []string{"7", "--body", wrapped[:20] + "\n" + wrapped[20:]}, true},
		{"another token", "gh.pr.comment", "", []string{"7", "--body", core.NewToken()}, false},
		{"a review", "gh.pr.review", "", []string{"7", "--approve"}, true},
		{"a close", "gh.pr.close", "", []string{"7"}, true},
		{"a reopening", "gh.pr.reopen", "", []string{"7"}, true},
		{"own run", "gh.run.rerun", "", []string{"5"}, false},
		{"another run", "gh.run.rerun", "", []string{"6"}, true},
		{"a fork's run", "gh.run.rerun", "", []string{"7"}, true},
		{"another run's job", "gh.run.rerun", "", []string{"5", "--job=8"}, true},
		{"a review comment", "gh.api", "repos/o/r/pulls/5/comments", []string{"-fbody=x"}, false},
		{"a review comment with a mention", "gh.api", "repos/o/r/pulls/5/comments", []string{"-fbody=@bob"}, true},
		{"a review comment on a path with a mention", "gh.api", "repos/o/r/pulls/5/comments", []string{"-fbody=x", "-fpath=@bob"}, true},
		{"reading comments", "gh.api", "repos/o/r/pulls/5/comments", nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, err := w.Prepare(t.Context(), relay.Call{Box: w.box, Method: row.method, Body: params(row.endpoint, row.args...)})
			if err != nil {
				t.Fatal(err)
			}
			if got := policy.Decide(a.Kind, a.Facts, policy.Settings{Safe: true}).Verdict; (got == policy.Ask) != row.asked {
				t.Errorf("decided %v on %+v", got, a.Facts)
			}
			r := a.Request.(request)
			if !r.writes() {
				return
			}
			if got := policy.Decide(a.Kind, a.Facts, policy.Settings{}).Verdict; got != policy.Ask {
				t.Errorf("without the safe subset it is decided %v", got)
			}
			for _, fact := range append(a.Show.Facts, wire.ActionFact{Value: a.Message}) {
				for _, arg := range row.args {
					if strings.ContainsAny(arg, "\n@") && strings.Contains(fact.Value, arg) {
						t.Errorf("text of the box stands in %q", fact.Value)
					}
				}
			}
			body, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			before := w.read(t, "log")
			if out := w.Resume(t.Context(), relay.Call{Box: w.box, Method: row.method, Body: body}); !out.Failed || w.read(t, "log") != before || !strings.Contains(out.Envelope.Stderr, "look with") {
				t.Errorf("after a restart: %+v", out)
			}
		})
	}
}

func TestReadsAreDoneAgainAfterARestart(t *testing.T) {
	w := newWorld(t)
	a, err := w.Prepare(t.Context(), relay.Call{Box: w.box, Method: "gh.pr.view", Body: params("", "7")})
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(a.Request)
	if out := w.Resume(t.Context(), relay.Call{Box: w.box, Method: "gh.pr.view", Body: body}); out.Failed || out.Envelope.Stdout != "answer\n" {
		t.Errorf("got %+v", out)
	}
	for _, body := range []string{"[", "{}", `{"op":"pr.view"}`, `{"op":"pr.view","repository":{"host":"github.com","owner":"o","name":"r"},"options":[{"name":"--web"}]}`} {
		before := w.read(t, "log")
		call := relay.Call{Box: w.box, Method: "gh.pr.view", Body: json.RawMessage(body)}
		if out := w.Do(t.Context(), call, func(int) error { return nil }); !out.Failed || w.read(t, "log") != before {
			t.Errorf("%s: %+v", body, out)
		}
	}
}

// TestAMergeIsOfWhatWasShown: it takes a person, and the commit that they saw.
func TestAMergeIsOfWhatWasShown(t *testing.T) {
	const pr = `{"number":7,"title":"a @title","state":"OPEN","headRefName":"agentbox/one","headRefOid":"` + oid + `","baseRefName":"main"}`
	w := newWorld(t)
	w.write(t, "pr_view_", pr)
	a, end := w.asked(t, "gh.pr.merge", params("", "--squash", "--auto"))
	var labels []string
	for _, f := range a.Action.Facts {
		labels = append(labels, f.Label)
	}
	if want := []string{"repository", "pull request", "commit", "branch", "into", "when", "option", "option"}; !slices.Equal(labels, want) || a.Action.Texts[0].Text != "a @title" {
		t.Errorf("shown %q, %+v", labels, a.Action)
	}
	if env := end(true); env.ExitCode != 0 {
		t.Errorf("got %+v", env)
	}
	calls := strings.Split(strings.TrimSpace(w.read(t, "log")), "\n")
	if last := calls[len(calls)-1]; last != "pr|merge|--repo=github.com/o/r|--squash|--auto|--match-head-commit="+oid+"|7|" {
		t.Errorf("called with %s", last)
	}
	if _, end := w.asked(t, "gh.pr.merge", params("", "7", "--merge")); end(false).ExitCode != wire.ExitDenied {
		t.Error("a no was not heard")
	}
	for force, code := range map[bool]int{false: wire.ExitDenied, true: 0} {
		w := newWorld(t, func(c *server.Config) { c.ApprovalsOff, c.Policy.ForceMerge = true, force })
		w.write(t, "pr_view_", pr)
		if env := w.must(t, "gh.pr.merge", "", "7", "--merge"); env.ExitCode != code {
			t.Errorf("approvals off, force %v: %+v", force, env)
		}
	}
	w.write(t, "pr_view_", "no JSON")
	if env := w.must(t, "gh.pr.merge", "", "7", "-m"); env.ExitCode != wire.ExitFailed {
		t.Errorf("got %+v", env)
	}
}

// TestFill: title and text are what gh would make of the commits; they are
// judged like what the box says itself, as it wrote the commits.
func TestFill(t *testing.T) {
	for _, row := range []struct {
		name, commits string
		args          []string
		title, text   string
		asked         bool
	}{
		{"one commit", `[{"commit":{"message":"fix it\n\nbecause"}}]`, []string{"--fill"}, "fix it", "because", false},
		{"several", `[{"commit":{"message":"a\nx"}},{"commit":{"message":"b"}}]`, []string{"-f"}, "agentbox/one", "- a\n- b", false},
		{"the first", `[{"commit":{"message":"a\n\nx"}},{"commit":{"message":"b"}}]`, []string{"--fill-first"}, "a", "x", false},
		{"a title of its own", `[{"commit":{"message":"a\n\nx"}}]`, []string{"--title", "t", "--fill"}, "t", "x", false},
		{"a title, and nothing known", `?`, []string{"--title", "t", "--fill"}, "t", "", false},
		{"a mention", `[{"commit":{"message":"thanks @bob"}}]`, []string{"--fill"}, "thanks @bob", "", true},
		{"control characters", `[{"commit":{"message":"a\u001b[31m\n"}}]`, []string{"--fill"}, "a [31m", "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(t, "api_repos.o.r.compare.main...agentbox.one_", `{"commits":`+row.commits+`}`)
			a, err := w.Prepare(t.Context(), relay.Call{Box: w.box, Method: "gh.pr.create", Body: params("", row.args...)})
			if err != nil {
				t.Fatal(err)
			}
			r := a.Request.(request)
			title, _ := r.get("--title")
			text := strings.TrimSuffix(strings.TrimSuffix(r.Text, footer), "\n\n---\n")
			if title != row.title || text != row.text || a.Facts.Speaks != row.asked {
				t.Errorf("got %q, %q, %+v", title, text, a.Facts)
			}
		})
	}
	w := newWorld(t)
	w.write(t, "api_repos.o.r.compare.main...agentbox.one_", `{"commits":[]}`)
	if env := w.must(t, "gh.pr.create", "", "--fill"); env.ExitCode != wire.ExitRefused || !strings.Contains(env.Stderr, "push it first") {
		t.Errorf("got %+v", env)
	}
}

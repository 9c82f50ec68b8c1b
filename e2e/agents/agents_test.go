package agents

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/madarco/agentbox/e2e/modelserver"
	"github.com/madarco/agentbox/e2e/terminal"
)

// agent is how an agent is told to work.
type agent struct {
	name string
	// headless come before the prompt where it prints an answer and ends.
	headless []string
	// ready is on the screen when it takes a prompt.
	ready string
}

var all = []agent{
	{"claude", []string{"-p"}, "bypass permissions on"},
	{"codex", []string{"exec"}, "Ask Codex to do anything"},
	{"opencode", []string{"run"}, "Ask anything"},
}

// job is what the model does: work on a file of its own, commit, push; then a
// push to main that the user refuses, and one that the user allows.
func job(file string) modelserver.Script {
	const toMain = "git push origin HEAD:main"
	return modelserver.Script{
		{Write: &modelserver.Write{Path: file, Content: "hello\nworld\n"}},
		{Edit: &modelserver.Edit{Path: file, Old: "world", New: "wide\nworld"}},
		{Run: "git add " + file + " && git commit -q -m 'feat: " + file + "' && git push -q origin HEAD && echo pushed", Timeout: 120},
		{Run: toMain + " || echo refused", Timeout: 600},
		{Run: toMain + " && echo allowed", Timeout: 600},
		{Finish: "The work on " + file + " is done."},
	}
}

// hello answers each conversation.
var hello = modelserver.Script{{Finish: "All hands are on deck."}}

func TestRealAgentsInABox(t *testing.T) {
	scripts := map[string]modelserver.Script{"hello": hello, "tui": job("tui.txt")}
	for _, a := range all {
		scripts[a.name] = job(a.name + ".txt")
	}
	w := newWorld(t, scripts)
	for _, a := range all {
		t.Run(a.name+" works headless", func(t *testing.T) { headless(t, w, a) })
	}
	t.Run("claude works in its terminal", func(t *testing.T) { inTerminal(t, w, all[0]) })
	for _, a := range all {
		t.Run(a.name+" starts without a dialog", func(t *testing.T) { starts(t, w, a) })
	}
	t.Run("no key is anywhere but in the sessions", func(t *testing.T) { noKey(t, w) })
}

func headless(t *testing.T, w *world, a agent) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		done <- w.run(ctx, w.environ(a.name), nil, append(append([]string{a.name, "start", w.box, "--"}, a.headless...), "please work")...)
	}()
	w.answerPushes(ctx, t)
	r := <-done
	if r.code != 0 || !strings.Contains(r.out+r.err, "The work on "+a.name+".txt is done.") {
		t.Fatalf("it ended with %d and said\n%s%s\nrequests: %s", r.code, r.out, r.err, w.requests(t))
	}
	w.checkWork(ctx, t, a.name, a.name)
}

// answerPushes refuses the first push to main and allows the second.
func (w *world) answerPushes(ctx context.Context, t *testing.T) {
	t.Helper()
	before := w.remoteHas("main")
	first := w.waiting(ctx, t)
	w.answer(ctx, t, first, "--deny", "--note", "first show me the tests")
	second := w.waiting(ctx, t)
	if second == first {
		t.Error("the second push has the first question")
	}
	if got := w.remoteHas("main"); got != before {
		t.Errorf("main moved to %s although the user said no", got)
	}
	w.answer(ctx, t, second)
}

// checkWork holds what an agent was to do against the user's repository, the
// remote, and what the model saw of it.
func (w *world) checkWork(ctx context.Context, t *testing.T, script, who string) {
	t.Helper()
	tip := w.git("rev-parse", w.branch)
	if got := w.git("log", "-1", "--format=%s", tip); got != "feat: "+script+".txt" {
		t.Errorf("the last commit that landed is %q", got)
	}
	if got := w.git("show", tip+":"+script+".txt"); got != "hello\nwide\nworld" {
		t.Errorf("the file holds %q", got)
	}
	for _, branch := range []string{w.branch, "main"} {
		if got := w.remoteHas(branch); got != tip {
			t.Errorf("the remote's %s is at %s, want %s", branch, got, tip)
		}
	}
	told := map[int]string{}
	for line := range strings.Lines(w.requests(t)) {
		var r modelserver.Request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("the model's log: %v: %s", err, line)
		}
		if r.Script != script || r.Kind != modelserver.Turn {
			continue
		}
		if r.Agent != who || r.Credential != key {
			t.Errorf("a request of %q with key %q", r.Agent, r.Credential)
		}
		if r.Result != nil {
			told[r.Result.Step] = r.Result.Output
		}
	}
	for step, want := range map[int]string{2: "pushed", 3: "first show me the tests", 4: "allowed"} {
		if !strings.Contains(told[step], want) {
			t.Errorf("step %d told the agent %q, want %q", step, told[step], want)
		}
	}
}

// open starts an agent in the box, on a terminal, and waits until it takes a
// prompt. A dialog would keep that from its screen.
func (w *world) open(ctx context.Context, t *testing.T, a agent, script string) *terminal.Terminal {
	t.Helper()
	term := terminal.Open(ctx, t, w.project, w.environ(script), w.agentbox, a.name, "start", w.box)
	term.Wait(a.ready)
	return term
}

// leave detaches as a user does, and ends the session from outside.
func (w *world) leave(ctx context.Context, t *testing.T, a agent, term *terminal.Terminal) {
	t.Helper()
	for _, key := range []string{"C-a", "d"} {
		if _, err := term.Tmux("send-keys", key); err != nil {
			t.Fatal(err)
		}
	}
	term.Ended()
	if out := w.inBox(ctx, t, "agentbox-ctl session list && agentbox-ctl session kill "+a.name); !strings.Contains(out, a.name) {
		t.Errorf("the session ended with the terminal: %s", out)
	}
}

func inTerminal(t *testing.T, w *world, a agent) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	term := w.open(ctx, t, a, "tui")
	defer term.Close()
	term.Enter("please work")
	w.answerPushes(ctx, t)
	term.Wait("The work on tui.txt is done.")
	w.leave(ctx, t, a, term)
	w.checkWork(ctx, t, "tui", a.name)
}

// Each agent starts again and again, in a project whose files would make it
// ask: what is typed must reach the model.
func starts(t *testing.T, w *world, a agent) {
	rounds := 2
	if os.Getenv("AGENTBOX_LONG") != "" {
		rounds = 20
	}
	for i := range rounds {
		func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			term := w.open(ctx, t, a, "hello")
			defer term.Close()
			term.Enter("say hello")
			term.Wait("All hands are on deck.")
			w.leave(ctx, t, a, term)
			t.Logf("%s: start %d of %d without a dialog", a.name, i+1, rounds)
		}()
	}
}

// noKey looks for the key in what the engine shows and in the box's files. The
// server's own log is the only place that may have it.
func noKey(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if out := w.docker(ctx, t, "inspect", w.container); strings.Contains(out, key) {
		t.Errorf("the engine shows the key: %s", out)
	}
	out := w.inBox(ctx, t, "sudo grep -rlFs "+key+" /home /workspace /run /var /etc /tmp --exclude-dir=model; true")
	if out != "" {
		t.Errorf("the key is in %s", out)
	}
}

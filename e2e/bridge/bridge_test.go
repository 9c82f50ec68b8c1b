package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/server"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/sqlite"
)

// calm bounds what may take until everybody has an answer once the network is
// well again.
const calm = 3 * time.Minute

// counted is a host action that counts how often each request was done.
type counted struct {
	mu   sync.Mutex
	done map[string]int
}

func (c *counted) Prepare(_ context.Context, call relay.Call) (relay.Action, error) {
	var p struct {
		N string `json:"n"`
	}
	if err := wire.Decode(call.Body, &p); err != nil {
		return relay.Action{}, &relay.Refusal{Code: wire.ExitBadRequest, Text: err.Error()}
	}
	return relay.Action{Kind: policy.GitRead, Facts: policy.ActionFacts{Known: true, Own: true}, Request: p, Message: "count"}, nil
}

func (c *counted) Do(_ context.Context, call relay.Call, _ func(int) error) store.Outcome {
	var p struct{ N string }
	_ = json.Unmarshal(call.Body, &p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[p.N]++
	return store.Outcome{Summary: "counted", Envelope: wire.Envelope{Stdout: p.N}}
}

func (c *counted) Resume(context.Context, relay.Call) store.Outcome {
	return store.Outcome{Failed: true, Summary: "nobody knows", Envelope: wire.Envelope{ExitCode: wire.ExitFailed, Stderr: "nobody knows\n"}}
}

// host is a relay on the laptop, which can be restarted.
type host struct {
	t    *testing.T
	home core.Home
	acts *counted
	st   store.Store
	srv  *server.Server
}

func (h *host) start() {
	h.t.Helper()
	st, err := sqlite.Open(h.t.Context(), h.home.RelayDB(), sqlite.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.st = st
	h.srv = server.New(server.Config{Home: h.home, Store: st, Methods: map[string]relay.Method{"count": h.acts}, Policy: policy.Settings{Safe: true, All: true}, Log: slog.New(slog.DiscardHandler)})
	if err := h.srv.Recover(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	box := core.Box{ID: boxID, Name: "far", AutoApproveHostActions: true}
	if _, err := st.RegisterBox(h.t.Context(), box, store.HashToken(boxToken)); err != nil {
		h.t.Fatal(err)
	}
	if err := h.srv.OpenBridge(boxID); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) stop() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.t.Context()), 10*time.Second)
	defer cancel()
	h.srv.Close(ctx)
	if err := h.st.Close(); err != nil {
		h.t.Error(err)
	}
}

// boxLife is a process in the namespace.
type boxLife struct {
	cmd  *exec.Cmd
	in   io.Closer
	read chan struct{}
}

// told gathers what the box's tools were told, over all its lives.
type told struct {
	mu  sync.Mutex
	all []outcome
}

func startBox(t *testing.T, n *network, life int, to *told) *boxLife {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ip", "netns", "exec", n.name, self) //nolint:noctx // ended by its input
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=life%d", asBox, life))
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &boxLife{cmd, in, make(chan struct{})}
	go func() {
		defer close(b.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var o outcome
			if json.Unmarshal(lines.Bytes(), &o) == nil {
				to.mu.Lock()
				to.all = append(to.all, o)
				to.mu.Unlock()
			}
		}
	}()
	return b
}

// kill ends the box as a crash does; its tools go with it.
func (b *boxLife) kill() {
	_ = b.cmd.Process.Kill()
	<-b.read
	_ = b.cmd.Wait()
	_ = b.in.Close()
}

// finish lets the tools have the answers that they wait for.
func (b *boxLife) finish(t *testing.T) {
	t.Helper()
	_ = b.in.Close()
	late := time.AfterFunc(calm, func() { _ = b.cmd.Process.Kill() })
	<-b.read
	if err := b.cmd.Wait(); err != nil || !late.Stop() {
		t.Errorf("the box's tools had no answer %v after the network was well: %v", calm, err)
	}
}

func TestNothingIsDoneTwiceAcrossANetworkThatFails(t *testing.T) {
	last := time.Minute
	if os.Getenv("AGENTBOX_LONG") != "" {
		last = 5 * time.Minute
	}
	seed := rand.Uint64() //nolint:gosec // guards nothing
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // guards nothing
	n := newNetwork(t)
	p := newProxy(t, n.box+":"+boxPort, seed)
	home := core.Home(t.TempDir())
	for _, dir := range []string{home.Bridges(), filepath.Dir(home.RelayDB())} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link, err := json.Marshal(wire.BridgeLink{PreviewURL: p.URL, BridgeToken: bridgeToken})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home.Bridges(), boxID+".link.json"), link, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, home: home, acts: &counted{done: map[string]int{}}}
	answers := &told{}
	lives := 0
	box := startBox(t, n, lives, answers)
	h.start()
	n.lossy("0.05")
	p.troubled.Store(true)
	end := time.After(last)
	restarts, cuts := 0, 0
trouble:
	for {
		select {
		case <-end:
			break trouble
		case <-time.After(time.Duration(2000+rng.IntN(3000)) * time.Millisecond):
		}
		switch rng.IntN(4) {
		case 0:
			cuts++
			n.partition()
			<-time.After(time.Duration(500+rng.IntN(3000)) * time.Millisecond)
			n.heal()
		case 1:
			restarts++
			h.stop()
			h.start()
		case 2:
			lives++
			box.kill()
			box = startBox(t, n, lives, answers)
		}
	}
	p.troubled.Store(false)
	n.inside("iptables", "-F")
	box.finish(t)
	h.stop()
	check(t, h.acts.done, answers.all)
	t.Logf("%d done, %d answered; %d restarts of the host, %d of the box, %d partitions, %d answers of 504, %d results said twice",
		len(h.acts.done), len(answers.all), restarts, lives, cuts, p.gaveUp.Load(), p.twice.Load())
}

// check holds what was done against what was answered.
func check(t *testing.T, done map[string]int, answers []outcome) {
	t.Helper()
	for id, times := range done {
		if times != 1 {
			t.Errorf("%s was done %d times", id, times)
		}
	}
	good := 0
	for _, o := range answers {
		switch {
		case o.Exit != wire.ExitOK: // told so: cut by a restart, or expired
		case done[o.N] != 1 || o.Stdout != o.N:
			t.Errorf("%s was answered with %+v and done %d times", o.N, o, done[o.N])
		default:
			good++
		}
	}
	if good < 10*callers {
		t.Errorf("only %d of %d answers were good", good, len(answers))
	}
}

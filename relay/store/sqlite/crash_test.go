package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/sqlite"
)

// crashEnv makes the test binary a writer to the database that it names.
const crashEnv = "AGENTBOX_TEST_STORE_CRASH"

// writeUntilKilled prints a line for every write that was acknowledged. It ends
// by being killed, or when nobody reads the lines.
func writeUntilKilled(path string) {
	ctx := context.Background()
	s := must(sqlite.Open(ctx, path, sqlite.Options{}))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			box := fmt.Sprintf("b%d", w)
			for i := 0; ; i++ {
				digest := fmt.Sprintf("%s-%d-%d", box, os.Getpid(), i)
				e := must(s.AppendEvent(ctx, box, wire.PostEvent{Type: "t"}))
				a, _, err := s.OpenApproval(ctx, store.Ask{BoxID: box, Method: "m", Digest: digest, TTL: time.Hour})
				must(a, err)
				must(s.AnswerApproval(ctx, a.ID, store.Reply{Yes: true}))
				in := must(s.Begin(ctx, store.Intent{BoxID: box, Method: "m", Digest: digest, ApprovalID: a.ID, RequestID: digest}))
				must(fmt.Fprintf(os.Stdout, "begun %s %s %d %s\n", box, in.ID, e.Seq, a.ID))
				if err := s.End(ctx, in.ID, store.Outcome{Envelope: wire.Envelope{Stdout: digest}}); err != nil {
					panic(err)
				}
				must(fmt.Fprintf(os.Stdout, "ended %s %s %d %s\n", box, digest, e.Seq, a.ID))
			}
		})
	}
	wg.Wait()
}

// acknowledged is one line of the writer.
type acknowledged struct {
	what, box, name, approval string
	seq                       int64
}

func TestWhatWasAcknowledgedSurvivesAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	s := openAt(t, path, nil)
	for w := range 4 {
		register(t, s, fmt.Sprintf("b%d", w))
	}
	closed(t, s)
	for range 3 {
		lines := killMidway(t, path, 150)
		s := openAt(t, path, nil)
		checkAcknowledged(t, s, lines)
		// What was going on is known, and can be ended by who comes after.
		for _, in := range must(s.Intents(t.Context())) {
			if err := s.End(t.Context(), in.ID, store.Outcome{Failed: true}); err != nil {
				t.Error(err)
			}
		}
		if running := must(s.Approvals(t.Context(), "", wire.Executing)); len(running) > 0 {
			t.Errorf("approvals execute without an intent: %v", running)
		}
		must(store.VerifyAudit(t.Context(), s, store.Head{}))
		closed(t, s)
	}
}

// killMidway runs a writer, kills it after so many lines, and returns all that it printed.
func killMidway(t *testing.T, path string, after int) []acknowledged {
	t.Helper()
	child := exec.Command(must(os.Executable()))
	child.Env = append(os.Environ(), crashEnv+"="+path)
	child.Stderr = os.Stderr
	out := must(child.StdoutPipe())
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []acknowledged
	for scan := bufio.NewScanner(out); scan.Scan(); {
		var l acknowledged
		if _, err := fmt.Sscan(scan.Text(), &l.what, &l.box, &l.name, &l.seq, &l.approval); err != nil {
			t.Fatalf("%q: %v", scan.Text(), err)
		}
		lines = append(lines, l)
		if len(lines) == after {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || len(lines) < after {
		t.Fatalf("the writer ended by itself after %d lines: %v", len(lines), err)
	}
	return lines
}

func checkAcknowledged(t *testing.T, s store.Store, lines []acknowledged) {
	t.Helper()
	ctx := t.Context()
	last := map[string]int64{}
	for _, l := range lines {
		last[l.box] = max(last[l.box], l.seq)
		a := must(s.Approval(ctx, l.approval))
		switch l.what {
		case "begun":
			if a.State != wire.Executing && a.State != wire.Done {
				t.Errorf("work %s was begun and its approval is %s", l.name, a.State)
			}
		case "ended":
			if a.State != wire.Done {
				t.Errorf("work %s was ended and its approval is %s", l.name, a.State)
			}
			if env := must(s.Result(ctx, l.box, l.name, l.name)); env.Stdout != l.name {
				t.Errorf("the result of %s is %q", l.name, env.Stdout)
			}
		}
	}
	for box, seq := range last {
		if events := must(s.Events(ctx, box, seq-1, 1)); len(events) != 1 || events[0].Seq != seq {
			t.Errorf("event %d of box %s is lost: %v", seq, box, events)
		}
	}
}

package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store/headfile"
	"github.com/madarco/agentbox/relay/store/sqlite"
)

const (
	posters = 3
	// perLife bounds the events of a poster in one life of the relay, so that
	// the ring holds them all when they are looked for.
	perLife = 250
	askers  = 2
	// longestLife bounds how long a relay lives.
	longestLife = 3 * time.Second
)

// TestNothingIsLostAndNothingHappensTwiceUnderLoad kills the relay while a box
// posts events, pushes its own branch, and asks for pushes that two operators
// answer at once, one of them more often with no than the other.
func TestNothingIsLostAndNothingHappensTwiceUnderLoad(t *testing.T) {
	length := 20 * time.Second
	if os.Getenv("AGENTBOX_LONG") != "" {
		length = 5 * time.Minute
	}
	random := seeded(t)
	l := newLoad(newWorld(t), random)
	l.door.open()
	var running sync.WaitGroup
	running.Go(l.pushOwn)
	for n := range askers {
		running.Go(func() { l.askOften(n) })
	}
	end := time.Now().Add(length)
	kills, slowest, all := 0, time.Duration(0), time.Duration(0)
	for time.Now().Before(end) && !t.Failed() {
		var posting sync.WaitGroup
		for n := range posters {
			posting.Go(func() { l.post(n) })
		}
		<-time.After(l.life())
		l.door.shut()
		l.w.kill()
		posting.Wait() // their acknowledgements are all written down now
		took := l.w.start()
		kills, slowest, all = kills+1, max(slowest, took), all+took
		l.checkEvents()
		l.door.open()
	}
	close(l.enough)
	running.Wait()
	l.check()
	if kills > 0 {
		t.Logf("%d kills: %d events, %d answers (%d yes), %d approved and %d own-branch pushes; recovery took %s on average, %s at most",
			kills, l.events, len(l.answers), l.yeses(), len(l.pushed), len(l.own), all/time.Duration(kills), slowest)
	}
}

// door holds those who use the relay back while there is none.
type door struct {
	mu   sync.Mutex
	wide chan struct{}
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.wide)
}

func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wide = make(chan struct{})
}

func (d *door) pass() {
	d.mu.Lock()
	wide := d.wide
	d.mu.Unlock()
	<-wide
}

// load is what is done to a relay, and what was said of it.
type load struct {
	w      *world
	door   door
	enough chan struct{} // closed when each comes to its end
	base   string        // the commit that all topics grow from

	mu      sync.Mutex
	random  *rand.Rand
	acked   map[int64]string // events of this life: number and payload
	posted  int              // makes each payload another
	seen    int64            // the last event that was looked at
	known   map[string]bool  // payloads of events that were seen
	events  int
	answers map[string]string // answer by approval
	own     []string          // commits of the own branch that are through
	pushed  map[string]bool   // approved commits that are through
	refused map[string]bool   // commits that were denied
}

func newLoad(w *world, random *rand.Rand) *load {
	w.git(w.box, "config", "gc.auto", "0")
	return &load{
		w: w, random: random, door: door{wide: make(chan struct{})}, enough: make(chan struct{}), base: w.git(w.box, "rev-parse", "HEAD"),
		acked: map[int64]string{}, known: map[string]bool{}, answers: map[string]string{}, pushed: map[string]bool{}, refused: map[string]bool{},
	}
}

func (l *load) ended() bool {
	select {
	case <-l.enough:
		return true
	default:
		return l.w.t.Failed()
	}
}

// post posts events until the relay dies or this life has had its share.
func (l *load) post(n int) {
	client := &http.Client{Timeout: limit}
	defer client.CloseIdleConnections()
	for range perLife {
		l.mu.Lock()
		l.posted++
		payload := fmt.Sprintf(`{"poster":%d,"n":%d}`, n, l.posted)
		l.mu.Unlock()
		body := fmt.Sprintf(`{"type":"load","payload":%s}`, payload)
		resp, err := client.Post(l.w.channel+"/events", "application/json", strings.NewReader(body))
		if err != nil {
			l.w.t.Errorf("the forwarder does not answer: %v", err)
			return
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read
		var kept struct{ ID int64 }
		switch {
		case resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusTooManyRequests || err != nil:
			return // killed, or its share is used up
		case resp.StatusCode != http.StatusAccepted || json.Unmarshal(text, &kept) != nil:
			l.w.t.Errorf("an event was answered with %s: %s", resp.Status, text)
			return
		}
		l.mu.Lock()
		if other, twice := l.acked[kept.ID]; twice {
			l.w.t.Errorf("number %d was given to %s and to %s", kept.ID, other, payload)
		}
		l.acked[kept.ID] = payload
		l.mu.Unlock()
	}
}

// checkEvents holds that every acknowledged event of the life that has just
// ended is there with its number, in order, and no event of the box twice.
func (l *load) checkEvents() {
	l.w.t.Helper()
	found := map[int64]string{}
	for {
		list, err := l.w.operator.Events(l.w.t.Context(), l.w.boxID, fmt.Sprint(l.seen))
		must(l.w.t, err)
		if len(list.Events) == 0 {
			break
		}
		for _, e := range list.Events {
			if e.Seq != l.seen+1 {
				l.w.t.Errorf("event %d comes after event %d", e.Seq, l.seen)
			}
			l.seen = e.Seq
			if e.Type != "load" {
				continue // the relay's own
			}
			if found[e.Seq] = string(e.Payload); l.known[found[e.Seq]] {
				l.w.t.Errorf("event %s is there twice", e.Payload)
			}
			l.known[found[e.Seq]] = true
		}
	}
	for seq, payload := range l.acked {
		if found[seq] != payload {
			l.w.t.Errorf("event %d was acknowledged as %s, and is %q", seq, payload, found[seq])
		}
	}
	l.events += len(l.acked)
	clear(l.acked)
}

// pushOwn pushes the box's own branch again and again.
func (l *load) pushOwn() {
	for n := 0; !l.ended(); n++ {
		commit := l.w.commit(fmt.Sprint("own ", n))
		for {
			l.door.pass()
			if out, err := l.w.command(l.w.box, "push", "-q", "origin", commit+":"+own).CombinedOutput(); err == nil {
				break
			} else if l.w.t.Failed() || strings.Contains(string(out), "denied") {
				l.w.t.Errorf("the own branch does not get through: %s", out)
				return
			}
		}
		l.own = append(l.own, commit)
	}
}

// askOften pushes topics that have to be asked about, each until it is through
// or denied.
func (l *load) askOften(asker int) {
	for n := 0; !l.ended(); n++ {
		name := fmt.Sprintf("topic-%d-%d", asker, n)
		commit := l.w.git(l.w.box, "commit-tree", "-p", l.base, "-m", name, l.base+"^{tree}")
		for done := false; !done && !l.w.t.Failed(); {
			l.door.pass()
			out, err := l.ask(commit, "refs/heads/"+name)
			l.mu.Lock()
			switch {
			case err == nil:
				l.pushed[commit], done = true, true
			case strings.Contains(out, wire.RefusalDenied+" by the user"):
				l.refused[commit], done = true, true
			}
			l.mu.Unlock()
		}
	}
}

// ask pushes; two operators answer what is asked.
func (l *load) ask(commit, ref string) (output string, err error) {
	cmd := l.w.command(l.w.box, "push", "origin", commit+":"+ref)
	var out bytes.Buffer
	said, end := io.Pipe()
	cmd.Stderr = io.MultiWriter(&out, end)
	var answering sync.WaitGroup
	answering.Go(func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if _, id, ok := strings.Cut(lines.Text(), "agentbox agent approve "); ok {
				for _, no := range []int{2, 6} {
					answering.Go(func() { l.answer(strings.TrimSpace(id), no) })
				}
			}
		}
		_, _ = io.Copy(io.Discard, said)
	})
	err = cmd.Run()
	_ = end.Close() // a pipe's
	answering.Wait()
	return out.String(), err
}

// life is how long the relay lives this time.
func (l *load) life() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.random.Int64N(int64(longestLife)))
}

// answer answers a question with no in so many of ten cases, as far as the
// relay lives and the other operator was not first.
func (l *load) answer(id string, no int) {
	ctx, cancel := context.WithTimeout(l.w.t.Context(), limit)
	defer cancel()
	l.mu.Lock()
	answer := "y"
	if l.random.IntN(10) < no {
		answer = "n"
	}
	l.mu.Unlock()
	open, err := l.w.operator.Approvals(ctx, l.w.boxID)
	i := slices.IndexFunc(open, func(a wire.Approval) bool { return a.ID == id && a.State == wire.Pending })
	if err != nil || i < 0 {
		return
	}
	if _, err := l.w.operator.Answer(ctx, wire.Answer{ID: id, Answer: answer, Digest: open[i].Digest}); err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if first, twice := l.answers[id]; twice {
		l.w.t.Errorf("%s was answered with %s and with %s", id, first, answer)
	}
	l.answers[id] = answer
}

func (l *load) yeses() (n int) {
	for _, answer := range l.answers {
		if answer == "y" {
			n++
		}
	}
	return n
}

// check holds the remote, the record and what was acknowledged together.
func (l *load) check() {
	l.w.t.Helper()
	times := map[string]int{}
	moves, err := l.w.remote.Pushed(repository)
	must(l.w.t, err)
	for _, u := range moves {
		times[u.New]++
	}
	for _, commit := range l.own {
		if times[commit] != 1 {
			l.w.t.Errorf("the remote moved the own branch to %s %d times", commit, times[commit])
		}
	}
	for commit := range l.pushed {
		if times[commit] != 1 {
			l.w.t.Errorf("the remote moved an approved branch to %s %d times", commit, times[commit])
		}
	}
	if len(l.own) == 0 || len(l.pushed) == 0 || len(l.refused) == 0 || l.events == 0 {
		l.w.t.Errorf("there was no load: %d, %d and %d pushes, %d events", len(l.own), len(l.pushed), len(l.refused), l.events)
	}
	l.checkRecord(times)
	l.checkOpen()
}

// checkOpen holds that no question is left but one about a push that had
// happened when it was asked again: the client that was cut off finds its
// branch up to date at its next try, and needs no answer.
func (l *load) checkOpen() {
	l.w.t.Helper()
	open, err := l.w.operator.Approvals(l.w.t.Context(), l.w.boxID)
	must(l.w.t, err)
	for _, a := range open {
		happened := slices.ContainsFunc(l.w.audit(), func(e wire.AuditEntry) bool {
			var d struct{ Digest, Result string }
			return json.Unmarshal(e.Detail, &d) == nil && e.Action == "work.end" && d.Digest == a.Digest && d.Result == "done"
		})
		if a.State == wire.Executing || !happened {
			l.w.t.Errorf("a question is left: %+v", a)
		}
	}
}

// checkRecord holds that every acknowledged answer is in the record and the
// only one; that what was asked about began once for each yes; that the remote
// moved to nothing that did not begin, and once; and that the chain is whole. A
// push that was through when the relay was killed may be asked about again, and
// denied then: what moved the remote is a yes all the same.
func (l *load) checkRecord(times map[string]int) {
	l.w.t.Helper()
	answered, begun := map[string]string{}, map[string]bool{}
	var allowed strings.Builder
	for _, e := range l.w.audit() {
		var d struct {
			Approval string          `json:"approval"`
			What     json.RawMessage `json:"what"`
		}
		_ = json.Unmarshal(e.Detail, &d) // other entries have other details
		switch answer := answerOf[e.Action]; {
		case answer != "" && answered[d.Approval] != "":
			l.w.t.Errorf("entry %d answers %s again", e.Seq, d.Approval)
		case answer != "":
			answered[d.Approval] = answer
		case e.Action == "work.begin" && strings.Contains(string(d.What), "refs/heads/topic-"):
			if d.Approval == "" || answered[d.Approval] != "y" || begun[d.Approval] {
				l.w.t.Errorf("entry %d begins a push for %q, answered %q, begun before: %v", e.Seq, d.Approval, answered[d.Approval], begun[d.Approval])
			}
			begun[d.Approval] = true
			allowed.Write(d.What)
		}
	}
	for id, answer := range l.answers {
		if answered[id] != answer {
			l.w.t.Errorf("%s was answered with %s, and the record has %q", id, answer, answered[id])
		}
	}
	for _, commits := range []map[string]bool{l.pushed, l.refused} {
		for commit := range commits {
			if times[commit] > 1 || times[commit] == 1 && !strings.Contains(allowed.String(), commit) {
				l.w.t.Errorf("the remote moved to %s %d times, and nobody said yes to it", commit, times[commit])
			}
		}
	}
	log, err := sqlite.OpenLog(l.w.t.Context(), l.w.home.RelayDB())
	must(l.w.t, err)
	defer log.Close() //nolint:errcheck // only read
	if _, err := headfile.Verify(l.w.t.Context(), log, l.w.home.AuditHead()); err != nil {
		l.w.t.Error(err)
	}
}

var answerOf = map[string]string{"approval.approved": "y", "approval.denied": "n"}

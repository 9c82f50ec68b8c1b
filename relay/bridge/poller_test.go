package bridge

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

func TestAnIdleBoxCostsThreeRequestsAMinute(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		pass(10 * time.Minute)
		if n := r.net.count("/bridge/poll"); n > 31 {
			t.Errorf("%d polls in ten minutes", n)
		}
		if n := r.net.count("/bridge/heartbeat"); n != 0 {
			t.Errorf("%d heartbeats for nothing", n)
		}
	})
}

func TestARequestIsDoneAtOnceThoughThePollIsHeld(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		pass(5 * time.Second)
		begun := time.Now()
		if code := <-r.ask(t.Context(), "r", "m"); code != 0 {
			t.Errorf("exit %d", code)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestAnOpenQuestionHoldsUpNothingElse(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		answered := make(chan struct{})
		r.host.act = func(ctx context.Context, req wire.Request) wire.Envelope {
			if req.RequestID == "asks" {
				select {
				case <-answered:
				case <-ctx.Done():
				}
			}
			return wire.Envelope{}
		}
		asks := r.ask(t.Context(), "asks", "in.repo")
		behind := r.ask(t.Context(), "behind", "in.repo")
		if code := <-r.ask(t.Context(), "other", "in.another"); code != 0 {
			t.Errorf("exit %d", code)
		}
		r.post("notify", `{"n":1}`)
		pass(time.Hour) // far beyond lease and life: the heartbeats carry both
		if got := r.host.done(); !slices.Equal(got, []string{"asks", "other"}) {
			t.Errorf("began %v", got)
		}
		if got := r.host.heard(); !slices.Equal(got, []string{`notify{"n":1}`}) {
			t.Errorf("heard %v", got)
		}
		close(answered)
		if one, two := <-asks, <-behind; one != 0 || two != 0 {
			t.Errorf("exits %d, %d", one, two)
		}
		if got := r.host.done(); !slices.Equal(got, []string{"asks", "other", "behind"}) {
			t.Errorf("began %v", got)
		}
	})
}

func TestStopWaitsForNoPerson(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		r.host.act = func(ctx context.Context, _ wire.Request) wire.Envelope {
			<-ctx.Done()
			return wire.Envelope{}
		}
		ctx, leave := context.WithCancel(t.Context())
		code := r.ask(ctx, "r", "m")
		r.stop() // comes back, or the bubble is stuck
		leave()
		if c := <-code; c != -1 {
			t.Errorf("the caller was told %d by nobody", c)
		}
	})
}

func TestALeavingCallerStopsTheHost(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		ended := make(chan struct{})
		r.host.act = func(ctx context.Context, _ wire.Request) wire.Envelope {
			<-ctx.Done()
			close(ended)
			return wire.Envelope{}
		}
		ctx, leave := context.WithCancel(t.Context())
		code := r.ask(ctx, "r", "m")
		leave()
		<-code
		synctest.Wait()
		pass(minRest)
		<-ended
		if n := r.net.count("/bridge/action-result"); n != 0 {
			t.Errorf("%d results for nobody", n)
		}
	})
}

func TestWhatWasGivenUpIsNotBegun(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		gate := make(chan struct{})
		r.net.set(func() {
			r.net.before = func(req *http.Request) (int, error) {
				if req.URL.Path == "/bridge/heartbeat" {
					<-gate
				}
				return 0, nil
			}
		})
		ctx, leave := context.WithCancel(t.Context())
		code := r.ask(ctx, "r", "m")
		leave()
		<-code
		close(gate)
		pass(time.Minute)
		if got := r.host.done(); len(got) != 0 {
			t.Errorf("began %v", got)
		}
	})
}

// Each way in which a message can be lost ends with the thing done once and the
// caller told.
func TestLossesOnTheWayAreMadeGood(t *testing.T) {
	for _, path := range []string{"/bridge/poll", "/bridge/heartbeat", "/bridge/action-result"} {
		for _, when := range []string{"before", "after"} {
			t.Run(path+" "+when, func(t *testing.T) {
				inRig(t, func(t *testing.T, r *rig) {
					left := 7 // more than the tries for one result
					lose := func(req *http.Request) error {
						r.net.mu.Lock()
						defer r.net.mu.Unlock()
						if req.URL.Path == path && left > 0 {
							left--
							return errReset
						}
						return nil
					}
					r.net.set(func() {
						if when == "after" {
							r.net.after = lose
						} else {
							r.net.before = func(req *http.Request) (int, error) { return 0, lose(req) }
						}
					})
					if code := <-r.ask(t.Context(), "r", "m"); code != 0 {
						t.Errorf("exit %d", code)
					}
					if got := r.host.done(); len(got) != 1 {
						t.Errorf("done %v", got)
					}
				})
			})
		}
	}
}

func TestBurstsOf504ShortenPollsAndPass(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		left, recovered := 4, 0
		var waits []string
		r.stop()
		r.cfg.Recover = func(context.Context) (string, error) { recovered++; return "", nil }
		r.net.before = func(req *http.Request) (int, error) {
			if req.URL.Path != "/bridge/poll" {
				return 0, nil
			}
			waits = append(waits, req.URL.Query().Get("wait"))
			if left > 0 {
				left--
				return http.StatusGatewayTimeout, nil
			}
			return 0, nil
		}
		r.start()
		pass(2 * time.Minute)
		if got := strings.Join(waits[:10], " "); got != "20 5 5 5 5 5 5 5 5 20" {
			t.Errorf("waits were %s", got)
		}
		if recovered != 0 {
			t.Error("an answer was taken for a lost connection")
		}
	})
}

func TestALostBoxIsFoundAtItsNewAddress(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		asked := 0
		r.stop()
		r.cfg.Recover = func(context.Context) (string, error) {
			asked++
			if asked == 1 {
				return "http://attacker.example", nil // not TLS: never used
			}
			return "http://127.0.0.1:2", nil
		}
		r.net.before = func(req *http.Request) (int, error) {
			if req.URL.Host == "127.0.0.1:1" {
				return 0, errReset
			}
			return 0, nil
		}
		r.start()
		if code := <-r.ask(t.Context(), "r", "m"); code != 0 {
			t.Errorf("exit %d", code)
		}
		synctest.Wait()
		if asked != 2 || r.net.links["attacker.example"] {
			t.Errorf("asked %d times, went to %v", asked, r.net.links)
		}
	})
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		r.stop()
		r.net.before = func(*http.Request) (int, error) { return http.StatusBadGateway, nil }
		before := r.net.count("/bridge/poll")
		r.start()
		pass(10 * time.Minute)
		if n := r.net.count("/bridge/poll") - before; n < 20 || n > 50 {
			t.Errorf("%d polls in ten minutes of failure", n)
		}
	})
}

func TestARestartOfEitherSideLosesAndDoublesNothing(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		want := []string{}
		say := func(n int) {
			r.post("notify", fmt.Sprint(n))
			want = append(want, fmt.Sprint("notify", n))
			pass(time.Second)
		}
		say(1)
		say(2)
		r.stop() // the host's relay
		say(3)
		r.start()
		pass(time.Second)
		r.net.set(func() { r.net.box = newBox(t) }) // the box's relay: numbers begin anew
		pass(holdMost)                              // the held poll still belongs to the old one
		say(4)
		if got := r.host.heard(); !slices.Equal(got, want) {
			t.Errorf("heard %v; want %v", got, want)
		}
	})
}

func TestAnEventThatCantBeKeptComesAgain(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		r.host.refuse = errKept
		r.post("notify", "1")
		pass(10 * time.Second)
		r.host.mu.Lock()
		r.host.refuse = nil
		r.host.mu.Unlock()
		pass(time.Minute)
		if got := r.host.heard(); !slices.Equal(got, []string{"notify1"}) {
			t.Errorf("heard %v", got)
		}
	})
}

func TestTheNewestLoginOfEachAgentArrivesOnceAndInNoRing(t *testing.T) {
	inRig(t, func(t *testing.T, r *rig) {
		r.stop()
		r.post("credentials-updated", `{"agent":"codex","n":1}`)
		r.post("credentials-updated", `{"agent":"codex","n":2}`)
		r.post("box-status", `{"schema":1,"boxId":"b00000001","n":1}`)
		r.post("box-status", `{"schema":1,"boxId":"b00000001","n":2}`)
		if len(r.net.box.events) != 0 {
			t.Errorf("the ring holds %v", r.net.box.events)
		}
		r.start()
		pass(time.Minute)
		want := []string{`credentials-updated{"agent":"codex","n":2}`, `box-status{"schema":1,"boxId":"b00000001","n":2}`}
		if got := r.host.heard(); !slices.Equal(got, want) {
			t.Errorf("heard %v; want %v", got, want)
		}
		if len(r.net.box.logins) != 0 {
			t.Error("the box still holds a login that the host has")
		}
	})
}

// A box is hostile: whatever its answers hold, the host stays bounded and does
// nothing twice.
func TestAHostileAnswerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &brain{act: func(ctx context.Context, _ wire.Request) wire.Envelope { <-ctx.Done(); return wire.Envelope{} }}
		p := NewPoller(PollerConfig{BoxID: boxID, Link: link, Host: h, Transport: yes{}})
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 10 * maxWorking {
			p.work.accept(ctx, Action{ID: fmt.Sprint(i / 2), Method: "m"})
		}
		p.work.accept(ctx, Action{ID: strings.Repeat("x", maxID+1), Method: "m"})
		p.work.accept(ctx, Action{ID: "", Method: "m"})
		if n := len(p.work.inHand()); n != maxWorking {
			t.Errorf("%d in hand", n)
		}
		synctest.Wait()
		if got := h.done(); len(got) != maxWorking {
			t.Errorf("%d begun", len(got))
		}
		cancel()
		p.work.running.Wait()
		for i := range 3 * maxAnswered {
			p.work.remember(fmt.Sprint(i), &wire.Envelope{})
		}
		if n := len(p.work.answered); n > maxUnposted {
			t.Errorf("%d answers with results kept", n)
		}
	})
}

// yes wants everything.
type yes struct{}

func (yes) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: r.Body, Request: r}, nil // a Beat reads as a Wanted
}

func FuzzPoll(f *testing.F) {
	f.Add([]byte(`{"instance":"i","actions":[{"id":"a","method":"m"}],"events":[{"id":1,"type":"t"}],"cursor":1,"status":{},"statusVersion":1,"credentials":[{}],"credentialsVersion":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var p Poll
		if wire.Decode(body, &p) == nil && len(p.Actions) > len(body) {
			t.Fatal("more actions than bytes")
		}
	})
}

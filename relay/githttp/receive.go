package githttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay/pktline"
)

// ReceivePack serves POST git-receive-pack: a push.
func (e *Endpoint) ReceivePack(w http.ResponseWriter, r *http.Request) {
	body, err := open(w, r, receivePack, e.MaxPack+maxSection)
	if err != nil {
		fail(w, err)
		return
	}
	// Whatever is answered, the rest of the body is read first.
	defer body.drain()
	req, err := parseRequest(body, e.Repo.ObjectFormat())
	if err != nil {
		body.drain()
		fail(w, err)
		return
	}
	if req.probe {
		body.drain()
		noStore(w, "application/x-git-receive-pack-result")
		w.WriteHeader(http.StatusOK)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	noStore(w, "application/x-git-receive-pack-result")
	results, err := e.receive(ctx, body, req, newProgress(ctx, cancel, w, req.sideBand))
	_ = report(w, req, results, err)
}

// receive refuses what needs no look at the pack and hands the rest on. The
// pusher is told nothing before it has sent all: it may not listen earlier.
func (e *Endpoint) receive(ctx context.Context, body *requestBody, req request, p *progress) ([]Result, error) {
	defer p.stop()
	results := make([]Result, len(req.updates))
	open := e.screen(req, results)
	if len(open) == 0 {
		body.drain()
		return results, nil
	}
	push := Push{Atomic: req.atomic}
	for _, i := range open {
		push.Updates = append(push.Updates, req.updates[i])
	}
	pack := &toEnd{r: body, end: p.start}
	if req.hasPack() {
		push.Pack = pack
	} else {
		body.drain()
		p.start()
	}
	done, err := e.Repo.Receive(ctx, push, p.say)
	if errors.Is(pack.err, errTooLarge) {
		return nil, pack.err // whatever was made of it
	}
	if err != nil {
		return nil, err
	}
	for n, i := range open {
		results[i] = done[n]
	}
	return results, nil
}

// screen fills in the results of updates that are refused unseen, and returns
// the indexes of the others. One refusal refuses the push whole: what would be
// left of a mirror or of a push with a delete is not what the pusher meant, and
// a person should not be asked about it.
func (e *Endpoint) screen(req request, results []Result) []int {
	var open []int
	for i, u := range req.updates {
		if reason := e.check(u, len(req.updates)); reason != "" {
			results[i] = Result{reason}
		} else {
			open = append(open, i)
		}
	}
	if len(open) < len(req.updates) {
		for _, i := range open {
			results[i] = Result{"another ref of this push was refused"}
		}
		return nil
	}
	return open
}

func (e *Endpoint) check(u policy.RefUpdate, count int) string {
	if count > maxUpdates {
		return fmt.Sprintf("%d refs in one push; push at most %d at a time", count, maxUpdates)
	}
	return e.Repo.Check(u)
}

// toEnd calls end once when all is read, and remembers why it could not be.
type toEnd struct {
	r   io.Reader
	end func()
	err error
}

func (t *toEnd) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	switch {
	case !errors.Is(err, io.EOF):
		t.err = err
	case t.end != nil:
		t.end()
		t.end = nil
	}
	return n, err
}

// report writes the answer of a push: the outcome of the pack and of every ref
// (gitprotocol-pack(5), "Report Status"), inside band 1 where bands are used.
func report(w io.Writer, req request, results []Result, failed error) error {
	var text bytes.Buffer
	out := pktline.NewWriter(&text)
	unpack := "ok"
	if failed != nil {
		unpack = oneLine(failed.Error())
	}
	lines := []string{"unpack " + unpack}
	for i, u := range req.updates {
		switch {
		case failed != nil:
			lines = append(lines, "ng "+u.Ref+" "+unpack)
		case results[i].Reason != "":
			lines = append(lines, "ng "+u.Ref+" "+oneLine(results[i].Reason))
		default:
			lines = append(lines, "ok "+u.Ref)
		}
	}
	for _, line := range lines {
		if err := out.Printf("%s\n", line); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	switch {
	case !req.report:
		text.Reset()
		fallthrough
	case !req.sideBand:
		_, err := w.Write(text.Bytes())
		return err
	}
	bands := pktline.NewWriter(w)
	if _, err := bands.Band(pktline.BandData).Write(text.Bytes()); err != nil {
		return err
	}
	return bands.Flush()
}

// progress talks to a pusher on band 2 while it waits. It repeats the last
// line, so that no client or proxy takes a long wait for a dead one, and gives
// the wait up when the pusher is gone.
type progress struct {
	mu     sync.Mutex
	out    io.Writer
	rc     *http.ResponseController
	last   string
	gone   context.CancelFunc
	ctx    context.Context //nolint:containedctx // lives as long as one request
	ticker *time.Ticker
	done   chan struct{}
}

func newProgress(ctx context.Context, gone context.CancelFunc, w http.ResponseWriter, sideBand bool) *progress {
	p := &progress{ctx: ctx, gone: gone}
	if sideBand {
		p.out = pktline.NewWriter(w).Band(pktline.BandProgress)
		p.rc = http.NewResponseController(w)
	}
	return p
}

func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = line
	p.write()
}

func (p *progress) write() {
	if p.out == nil || p.last == "" {
		return
	}
	// A pusher that reads nothing must not hold up what it has asked for. The
	// bound goes where the server knows none.
	_ = p.rc.SetWriteDeadline(time.Now().Add(keepAlive))
	defer p.rc.SetWriteDeadline(time.Time{}) //nolint:errcheck // as above
	_, err := io.WriteString(p.out, oneLine(p.last)+"\n")
	if err == nil {
		err = p.rc.Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		p.gone()
	}
}

func (p *progress) start() {
	p.ticker, p.done = time.NewTicker(keepAlive), make(chan struct{})
	go func() {
		defer close(p.done)
		for {
			select {
			case <-p.ctx.Done():
				return
			case <-p.ticker.C:
				p.mu.Lock()
				p.write()
				p.mu.Unlock()
			}
		}
	}()
}

// stop ends the repetition; nothing is written by it any more once it returns.
func (p *progress) stop() {
	if p.ticker == nil {
		return
	}
	p.gone()
	<-p.done
	p.ticker.Stop()
}

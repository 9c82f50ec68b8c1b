package relayclient

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPostTellsWhetherTheRelayTookIt(t *testing.T) {
	for name, test := range map[string]struct {
		answer answer
		want   string // in the error; empty for none
	}{
		"taken":       {answer{status: 202, body: `{"id":1}`}, ""},
		"refused":     {answer{status: 400, body: "no\x1b[2J"}, `status 400`},
		"unreachable": {broken, ErrUnreachable.Error()},
	} {
		s := &script{t: t, answers: []answer{test.answer}}
		c := &Client{base: "http://relay/p", token: "tok", transport: s}
		err := c.Post(t.Context(), "notify", map[string]string{"text": "x"})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v; want %q", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: the error acts on the terminal: %q", name, err)
		}
		if len(s.seen) != 1 || s.seen[0] != "POST /p/events" {
			t.Errorf("%s: sent %q", name, s.seen)
		}
	}
}

// silent is a relay that never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestPostDoesNotWaitForASilentRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{base: "http://relay", token: "tok", transport: silent{}}
		start := time.Now()
		err := c.Post(t.Context(), "notify", nil)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != postTime {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

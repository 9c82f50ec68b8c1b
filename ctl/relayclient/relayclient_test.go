package relayclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/relayenv"
)

// script answers requests one after the other; the last answer stands.
type script struct {
	t       *testing.T
	answers []answer
	seen    []string // "METHOD path body"
	ids     map[string]bool
}

type answer struct {
	status int
	body   string
	err    error
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := r.Header.Get("Authorization"); got != "Bearer tok" {
		s.t.Errorf("Authorization: %s", got)
	}
	var req wire.Request
	if json.Unmarshal(body, &req) == nil && r.URL.Path == "/p/rpc" {
		if s.ids == nil {
			s.ids = map[string]bool{}
		}
		s.ids[req.RequestID] = true
	}
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{"Location": {"http://evil/"}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func call(t *testing.T, answers ...answer) (got wire.Envelope, s *script, notices []string, err error) {
	synctest.Test(t, func(t *testing.T) {
		s = &script{t: t, answers: answers}
		c := &Client{base: "http://relay/p", token: "tok", transport: s, notice: func(text string) { notices = append(notices, text) }}
		got, err = c.Call(t.Context(), "git.push", wire.GitParams{Path: "/workspace"})
	})
	return got, s, notices, err
}

var broken = answer{err: errors.New("connection reset")}

func TestCallReadsTheEnvelopeWhateverTheStatus(t *testing.T) {
	for name, c := range map[string]struct {
		answer answer
		want   wire.Envelope
	}{
		"done":             {answer{status: 200, body: `{"exitCode":0,"stdout":"o","stderr":"e"}`}, wire.Envelope{Stdout: "o", Stderr: "e"}},
		"denied":           {answer{status: 500, body: `{"exitCode":10,"stdout":"","stderr":"denied"}`}, wire.Envelope{ExitCode: 10, Stderr: "denied"}},
		"nothing to say":   {answer{status: 204}, wire.Envelope{}},
		"a redirect":       {answer{status: 302, body: "moved"}, wire.Envelope{ExitCode: 1, Stderr: "relay: status 302: moved\n"}},
		"an error body":    {answer{status: 401, body: `{"error":"bad token","hint":"start the box again"}`}, wire.Envelope{ExitCode: 1, Stderr: "relay: status 401: bad token\nstart the box again\n"}},
		"parked, no name":  {answer{status: 202, body: `{}`}, wire.Envelope{ExitCode: 1, Stderr: "relay: the request is parked, but under no name\n"}},
		"parked by a path": {answer{status: 202, body: `{"promptId":"../admin"}`}, wire.Envelope{ExitCode: 1, Stderr: "relay: the request is parked, but under no name\n"}},
	} {
		got, s, _, err := call(t, c.answer)
		if err != nil || got != c.want || len(s.seen) != 1 {
			t.Errorf("%s: %+v, %v after %q; want %+v", name, got, err, s.seen, c.want)
		}
	}
}

func TestARetryCarriesTheSameRequestID(t *testing.T) {
	got, s, _, err := call(t, broken, answer{status: 502, body: "forwarder"}, answer{status: 503}, answer{status: 200, body: `{"exitCode":0,"stdout":"once"}`})
	if err != nil || got.Stdout != "once" || len(s.seen) != 4 || len(s.ids) != 1 {
		t.Errorf("%+v, %v after %q with ids %v", got, err, s.seen, s.ids)
	}
}

func TestADeadRelayIsGivenUp(t *testing.T) {
	_, s, _, err := call(t, broken)
	if !errors.Is(err, ErrUnreachable) || len(s.seen) != 1+len(retries) {
		t.Errorf("%v after %d requests", err, len(s.seen))
	}
}

func TestAParkedRequestIsPolledUntilItIsDone(t *testing.T) {
	pending := answer{status: 200, body: `{"status":"pending"}`}
	got, s, notices, err := call(t, answer{status: 202, body: `{"promptId":"p_1"}`}, pending, broken, answer{status: 502}, pending,
		answer{status: 200, body: `{"status":"done","result":{"exitCode":10,"stderr":"denied by user"}}`})
	if err != nil || got.ExitCode != 10 || got.Stderr != "denied by user" {
		t.Errorf("%+v, %v", got, err)
	}
	if len(s.seen) != 6 || s.seen[5] != "GET /p/rpc/status/p_1" || len(notices) != 1 {
		t.Errorf("asked %q, noticed %q", s.seen, notices)
	}
}

func TestAForgottenPromptEndsTheWait(t *testing.T) {
	got, _, _, err := call(t, answer{status: 202, body: `{"promptId":"p"}`}, answer{status: 404, body: `{"error":"unknown prompt"}`})
	if err != nil || got.ExitCode != 1 || !strings.Contains(got.Stderr, "unknown prompt") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWaitingHasNoBoundButTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, answers: []answer{{status: 202, body: `{"promptId":"p"}`}, {status: 200, body: `{"status":"pending"}`}}}
		c := &Client{base: "http://relay/p", token: "tok", transport: s, notice: func(string) {}}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		if _, err := c.Call(ctx, "git.push", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Call = %v", err)
		}
		if n := len(s.seen); n < 40000 {
			t.Errorf("%d requests in a day", n)
		}
	})
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	t.Setenv("AGENTBOX_RELAY_ENV_FILE", filepath.Join(t.TempDir(), "relay.env"))
	for _, c := range []struct{ url, token string }{{"", ""}, {"http://a", ""}, {"", "t"}, {"ftp://a", "t"}, {"://", "t"}, {"http://", "t"}} {
		t.Setenv(relayenv.URL, c.url)
		t.Setenv(relayenv.Token, c.token)
		if _, err := New(nil); !errors.Is(err, ErrNotConfigured) || !strings.Contains(err.Error(), "AGENTBOX_RELAY_URL") {
			t.Errorf("New with %q, %q = %v", c.url, c.token, err)
		}
	}
	t.Setenv(relayenv.URL, "http://127.0.0.1:8788/prefix/?a=b=c")
	if c, err := New(nil); err != nil || c.base != "http://127.0.0.1:8788/prefix" {
		t.Errorf("New = %+v, %v", c, err)
	}
}

func TestAYesSendsTheSameRequestAgain(t *testing.T) {
	got, s, notices, err := call(t, answer{status: 202, body: `{"status":"pending","promptId":"p_1","message":"push main"}`}, answer{status: 502},
		answer{status: 200, body: `{"status":"approved"}`}, answer{status: 200, body: `{"exitCode":0,"stdout":"pushed"}`})
	if err != nil || got.Stdout != "pushed" || len(s.ids) != 1 || len(s.seen) != 4 || s.seen[3] != "POST /p/rpc" {
		t.Errorf("%+v, %v after %q with ids %v", got, err, s.seen, s.ids)
	}
	if len(notices) != 1 || !strings.HasPrefix(notices[0], "push main\n") {
		t.Errorf("noticed %q", notices)
	}
}

// TestARelayThatNeverComesBackIsGivenUp once nothing can come of the question any
// more, and not before.
func TestARelayThatNeverComesBackIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		deadline := start.Add(time.Hour)
		parked, err := json.Marshal(wire.Parked{Status: "pending", PromptID: "p_1", Deadline: deadline})
		if err != nil {
			t.Fatal(err)
		}
		s := &script{t: t, answers: []answer{{status: 202, body: string(parked)}, {err: errors.New("no such socket")}}}
		c := &Client{base: "http://relay/p", token: "tok", transport: s, notice: func(string) {}}
		_, err = c.Call(t.Context(), "git.push", nil)
		if took := time.Since(deadline); !errors.Is(err, ErrUnreachable) || took < lateAnswer || took > lateAnswer+pollTime+pollSpread {
			t.Errorf("%v, %v after the deadline", err, took)
		}
	})
}

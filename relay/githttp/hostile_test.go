package githttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/pktline"
)

const (
	zero = "0000000000000000000000000000000000000000"
	one  = "1111111111111111111111111111111111111111"
	caps = "\x00report-status side-band-64k agent=test"
)

// closed is a repository that no request of these tests may reach.
type closed struct {
	t       *testing.T
	receive func(context.Context, Push, func(string)) ([]Result, error)
}

func (c *closed) ObjectFormat() string { return "sha1" }
func (c *closed) Refs(context.Context, bool) (relay.Refs, error) {
	return relay.Refs{Head: "refs/heads/main", List: []relay.Ref{{Name: "refs/heads/main", OID: one}, {Name: "refs/tags/v1", OID: one, Peeled: one}}}, nil
}
func (c *closed) Refresh(context.Context) error { return nil }
func (c *closed) Serve(context.Context, string, io.Reader, io.Writer) error {
	c.t.Error("the request reached the gate")
	return nil
}
func (c *closed) Check(policy.RefUpdate) string { return "" }
func (c *closed) Receive(ctx context.Context, p Push, say func(string)) ([]Result, error) {
	if c.receive == nil {
		c.t.Errorf("the push was received: %+v", p)
		return nil, errors.New("received")
	}
	return c.receive(ctx, p, say)
}

func endpoint(t *testing.T) *Endpoint {
	return &Endpoint{
		Repo: &closed{t: t}, MaxPack: 1 << 20,
	}
}

func line(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }

func post(e *Endpoint, service, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/git/k/"+service, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-"+service+"-request")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	if service == receivePack {
		e.ReceivePack(w, r)
	} else {
		e.UploadPack(w, r)
	}
	return w
}

func TestHostilePushesAreRefusedUnread(t *testing.T) {
	good := zero + " " + one + " refs/heads/x"
	for name, tc := range map[string]struct {
		body string
		code int
	}{
		"empty body":                    {"", 400},
		"cut in the length":             {"00", 400},
		"cut in a command":              {line(good + caps)[:60], 400},
		"no flush":                      {line(good + caps), 400},
		"not hex":                       {"zzzz" + good, 400},
		"length 0003":                   {"0003", 400},
		"too long a packet":             {"ffff" + strings.Repeat("x", 0xfffb), 400},
		"delimiter":                     {line(good+caps) + "0001" + "0000", 400},
		"response end":                  {line(good+caps) + "0002" + "0000", 400},
		"no capabilities":               {line(good) + "0000", 400},
		"second NUL part":               {line(good+caps) + line(zero+" "+one+" refs/heads/y"+caps) + "0000", 400},
		"NUL in the capabilities":       {line(good+caps+"\x00x") + "0000", 400},
		"line feed in the ref":          {line(zero+" "+one+" refs/heads/x\nrefs/heads/y"+caps) + "0000", 400},
		"space in the ref":              {line(zero+" "+one+" refs/heads/x y"+caps) + "0000", 400},
		"dots in the ref":               {line(zero+" "+one+" refs/heads/../x"+caps) + "0000", 400},
		"hidden part":                   {line(zero+" "+one+" refs/heads/.x"+caps) + "0000", 400},
		"lock":                          {line(zero+" "+one+" refs/heads/x.lock"+caps) + "0000", 400},
		"doubled slash":                 {line(zero+" "+one+" refs//heads/x"+caps) + "0000", 400},
		"not below refs":                {line(zero+" "+one+" HEAD"+caps) + "0000", 400},
		"reflog syntax":                 {line(zero+" "+one+" refs/heads/x@{1}"+caps) + "0000", 400},
		"wild card":                     {line(zero+" "+one+" refs/heads/*"+caps) + "0000", 400},
		"long ref":                      {line(zero+" "+one+" refs/heads/"+strings.Repeat("x", 256)+caps) + "0000", 400},
		"empty ref":                     {line(zero+" "+one+" "+caps) + "0000", 400},
		"upper-case id":                 {line(zero+" "+strings.Repeat("A", 40)+" refs/heads/x"+caps) + "0000", 400},
		"short id":                      {line(zero+" "+one[1:]+" refs/heads/x"+caps) + "0000", 400},
		"id of another object format":   {line(zero+" "+one+one[:24]+" refs/heads/x"+caps) + "0000", 400},
		"another object format":         {line(good+caps+" object-format=sha256") + "0000", 400},
		"push certificate":              {line("push-cert"+caps) + line("certificate version 0.1\n") + line("push-cert-end\n") + "0000", 400},
		"push-cert capability":          {line(good+caps+" push-cert=nonce") + "0000", 400},
		"unknown capability":            {line(good+caps+" multi_ack") + "0000", 400},
		"same ref twice":                {line(good+caps) + line(good) + "0000", 400},
		"shallow after a command":       {line(good+caps) + line("shallow "+one) + "0000", 400},
		"shallow with a bad id":         {line("shallow x") + line(good+caps) + "0000", 400},
		"empty packet for a command":    {"0004" + "0000", 400},
		"push options without an end":   {line(good+caps+" push-options") + "0000" + line("x"), 400},
		"push options, wrong packet":    {line(good+caps+" push-options") + "0000" + "0001", 400},
		"more commands than are read":   {line(good+caps) + strings.Repeat(line("shallow " + one)[:0]+line(zero+" "+one+" refs/heads/"+strings.Repeat("y", 200)), 1100) + "0000", 400},
		"a section that goes on and on": {strings.Repeat(line("shallow "+one), 6000) + "0000", 413},
	} {
		t.Run(name, func(t *testing.T) {
			e := endpoint(t)
			if w := post(e, receivePack, tc.body); w.Code != tc.code {
				t.Errorf("answered %d %s; want %d", w.Code, w.Body, tc.code)
			}
		})
	}
}

func TestHostileFetchesAreRefusedUnread(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		code int
	}{
		"empty body":           {"", 400},
		"no command":           {"0000", 400},
		"argument first":       {line("want "+one) + "0000", 400},
		"two commands":         {line("command=fetch") + line("command=ls-refs") + "0000", 400},
		"unknown command":      {line("command=object-info") + "0001" + "0000", 400},
		"bundle-uri":           {line("command=bundle-uri") + "0000", 400},
		"server option":        {line("command=fetch") + line("server-option=x") + "0001" + "0000", 400},
		"another format":       {line("command=ls-refs") + line("object-format=sha256") + "0000", 400},
		"unknown ls-refs word": {line("command=ls-refs") + "0001" + line("filter x") + "0000", 400},
		"no end":               {line("command=ls-refs") + "0001" + line("peel"), 400},
		"response end":         {line("command=ls-refs") + "0002", 400},
	} {
		t.Run(name, func(t *testing.T) {
			if w := post(endpoint(t), uploadPack, tc.body, "Git-Protocol", "version=2"); w.Code != tc.code {
				t.Errorf("answered %d %s; want %d", w.Code, w.Body, tc.code)
			}
		})
	}
}

func TestOnlyTheSmartProtocolIsServed(t *testing.T) {
	for target, code := range map[string]int{
		"?":                         403,
		"?service=git-upload-foo":   403,
		"?service=git-receive-pack": 200,
		"?service=git-upload-pack&service=git-upload-pack": 403,
		"?service=git-upload-pack&x=y":                     403,
	} {
		w := httptest.NewRecorder()
		endpoint(t).InfoRefs(w, httptest.NewRequest("GET", "/git/k/info/refs"+target, nil))
		if w.Code != code {
			t.Errorf("%s: answered %d; want %d", target, w.Code, code)
		}
	}
}

func TestEncodings(t *testing.T) {
	push := line(zero+" "+one+" refs/heads/x"+caps) + "0000" + "PACK"
	zip := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		z.Close()
		return b.String()
	}
	for name, tc := range map[string]struct {
		body, encoding, contentType string
		code                        int
		want                        string
	}{
		"gzip":               {zip(push), "gzip", "", 200, "ok refs/heads/x"},
		"no gzip after all":  {push, "gzip", "", 400, "not gzip"},
		"cut gzip":           {zip(push)[:30], "gzip", "", 400, ""},
		"deflate":            {push, "deflate", "", 415, ""},
		"two encodings":      {zip(push), "gzip, gzip", "", 415, ""},
		"wrong type":         {push, "", "text/plain", 400, "content type"},
		"inflates too far":   {zip(push + strings.Repeat("x", 3<<20)), "gzip", "", 200, "too large"},
		"is too long":        {push + strings.Repeat("x", 3<<20), "", "", 200, "too large"},
		"inflates in header": {zip(strings.Repeat(line("shallow "+one), 60000)), "gzip", "", 413, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := endpoint(t)
			e.Repo.(*closed).receive = func(_ context.Context, p Push, _ func(string)) ([]Result, error) {
				_, err := io.Copy(io.Discard, p.Pack)
				return make([]Result, 1), err
			}
			headers := []string{"Content-Encoding", tc.encoding}
			if tc.contentType != "" {
				headers = append(headers, "Content-Type", tc.contentType)
			}
			w := post(e, receivePack, tc.body, headers...)
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
				t.Errorf("answered %d %s; want %d with %q", w.Code, w.Body, tc.code, tc.want)
			}
		})
	}
}

func TestLoneFlushIsAProbe(t *testing.T) {
	if w := post(endpoint(t), receivePack, "0000"); w.Code != 200 || w.Body.Len() > 0 ||
		w.Header().Get("Content-Type") != "application/x-git-receive-pack-result" {
		t.Errorf("answered %d %q with %v", w.Code, w.Body, w.Header())
	}
}

func TestShallowLinesAndPushOptionsAreDropped(t *testing.T) {
	e := endpoint(t)
	var got Push
	e.Repo.(*closed).receive = func(_ context.Context, p Push, _ func(string)) ([]Result, error) {
		got = p
		return make([]Result, 1), nil
	}
	w := post(e, receivePack, line("shallow "+one+"\n")+line(zero+" "+one+" refs/heads/x\x00report-status push-options\n")+"0000"+line("ci.skip")+"0000"+"PACK")
	if want := line("unpack ok\n") + line("ok refs/heads/x\n") + "0000"; w.Body.String() != want {
		t.Errorf("answered %q; want %q", w.Body, want)
	}
	if len(got.Updates) != 1 || got.Updates[0].Ref != "refs/heads/x" || got.Atomic {
		t.Errorf("received %+v", got)
	}
}

func TestAWaitingPusherHearsSomethingEveryTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := endpoint(t)
		e.Repo.(*closed).receive = func(_ context.Context, p Push, say func(string)) ([]Result, error) {
			if _, err := io.Copy(io.Discard, p.Pack); err != nil {
				return nil, err
			}
			say("waiting for approval ab12")
			<-time.After(35 * time.Second) // of the bubble's clock
			return []Result{{Reason: "denied by the user: not on Friday"}}, nil
		}
		w := post(e, receivePack, line(zero+" "+one+" refs/heads/x"+caps)+"0000PACK")
		if got := strings.Count(w.Body.String(), "\x02waiting for approval ab12\n"); got != 4 {
			t.Errorf("the line came %d times in 35 s; want 4", got)
		}
		if want := "ng refs/heads/x denied by the user: not on Friday\n"; !strings.Contains(w.Body.String(), want) {
			t.Errorf("answered %q; want %q", w.Body, want)
		}
	})
}

// brokenPipe fails every write, as the socket of a client that is gone does.
type brokenPipe struct{ *httptest.ResponseRecorder }

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAFailedWriteEndsTheWait(t *testing.T) {
	e := endpoint(t)
	e.Repo.(*closed).receive = func(ctx context.Context, _ Push, say func(string)) ([]Result, error) {
		say("waiting")
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader(line(zero+" "+one+" refs/heads/x"+caps)+"0000PACK"))
	r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	e.ReceivePack(brokenPipe{httptest.NewRecorder()}, r)
}

// deafClient takes no byte, as a socket whose buffer is full.
type deafClient struct {
	*httptest.ResponseRecorder
	deadline time.Time
	gaveUp   bool
}

func (d *deafClient) SetWriteDeadline(at time.Time) error { d.deadline = at; return nil }

func (d *deafClient) Write([]byte) (int, error) {
	if !d.gaveUp {
		if d.deadline.IsZero() {
			select {} // as the socket would
		}
		<-time.After(time.Until(d.deadline)) // of the bubble's clock
		d.gaveUp = true
	}
	return 0, os.ErrDeadlineExceeded
}

func TestADeafPusherEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := endpoint(t)
		e.Repo.(*closed).receive = func(ctx context.Context, _ Push, say func(string)) ([]Result, error) {
			say("waiting")
			<-ctx.Done()
			return nil, ctx.Err()
		}
		r := httptest.NewRequest("POST", "/", strings.NewReader(line(zero+" "+one+" refs/heads/x"+caps)+"0000PACK"))
		r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
		e.ReceivePack(&deafClient{ResponseRecorder: httptest.NewRecorder()}, r)
	})
}

func TestListRefs(t *testing.T) {
	refs, _ := (&closed{}).Refs(t.Context(), false)
	for name, tc := range map[string]struct {
		args listArgs
		want string
	}{
		"all":      {listArgs{}, line(one+" HEAD\n") + line(one+" refs/heads/main\n") + line(one+" refs/tags/v1\n") + "0000"},
		"symrefs":  {listArgs{symrefs: true, prefixes: []string{"HEAD"}}, line(one+" HEAD symref-target:refs/heads/main\n") + "0000"},
		"peeled":   {listArgs{peel: true, prefixes: []string{"refs/tags/"}}, line(one+" refs/tags/v1 peeled:"+one+"\n") + "0000"},
		"nothing":  {listArgs{prefixes: []string{"refs/x"}}, "0000"},
		"not born": {listArgs{unborn: true}, line("unborn HEAD symref-target:refs/heads/trunk\n") + line(one+" refs/heads/main\n") + line(one+" refs/tags/v1\n") + "0000"},
	} {
		t.Run(name, func(t *testing.T) {
			r := refs
			if tc.args.unborn {
				r.Head = "refs/heads/trunk"
			}
			var out bytes.Buffer
			if err := listRefs(pktline.NewWriter(&out), r, tc.args); err != nil || out.String() != tc.want {
				t.Errorf("got %q, %v; want %q", &out, err, tc.want)
			}
		})
	}
}

// FuzzReceivePackRequest holds that what is accepted is valid, and reads no
// byte of what follows the section.
func FuzzReceivePackRequest(f *testing.F) {
	good := line(zero + " " + one + " refs/heads/x" + caps)
	for _, s := range []string{
		"", "0000", good + "0000", line("shallow "+one) + good + "0000", good + line(one+" "+zero+" refs/tags/y") + "0000",
		line(zero+" "+one+" refs/heads/x\x00push-options atomic object-format=sha1") + "0000" + line("o") + "0000",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, section []byte) {
		src := bytes.NewReader(append(bytes.Clone(section), "PACK"...))
		req, err := parseRequest(src, "sha1")
		if err != nil {
			return
		}
		if src.Len() < len("PACK") {
			rest, _ := io.ReadAll(src)
			t.Fatalf("read into what follows: %q is left", rest)
		}
		if req.probe != (len(req.updates) == 0) {
			t.Fatalf("probe is %v with %d updates", req.probe, len(req.updates))
		}
		for _, u := range req.updates {
			if !validRef(u.Ref) || len(u.Old) != 40 || len(u.New) != 40 || strings.ContainsAny(u.Ref, " \n\x00") {
				t.Fatalf("accepted %+v", u)
			}
		}
	})
}

// FuzzUploadPackRequest holds that what goes on to the gate is a command of
// ours and nothing else.
func FuzzUploadPackRequest(f *testing.F) {
	f.Add([]byte(line("command=ls-refs\n") + line("agent=x") + "0001" + line("peel\n") + line("ref-prefix refs/") + "0000"))
	f.Add([]byte(line("command=fetch") + line("object-format=sha1") + "0001" + line("want "+one) + "0000"))
	f.Fuzz(func(t *testing.T, body []byte) {
		cmd, err := parseCommandV2(bytes.NewReader(body), "sha1")
		if err != nil || cmd.name != "fetch" {
			return
		}
		head := cmd.head.String()
		for _, rest := range []string{line("command=fetch\n"), line("object-format=sha1\n")} {
			head = strings.ReplaceAll(head, rest, "")
		}
		if head != "0000" && head != "0001" {
			t.Errorf("passed on %q", cmd.head.String())
		}
	})
}

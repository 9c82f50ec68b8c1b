package session_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/session"
)

func request() session.Request {
	return session.Request{
		Name: "claude", Agent: "claude", Argv: []string{"claude", "fix it; $(now)", ""},
		Env: []string{"KEY=a=b", "EMPTY="}, Dir: "/workspace", Hold: true,
	}
}

func TestARequestArrivesAsItWasSent(t *testing.T) {
	t.Parallel()
	data, err := request().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := session.ReadRequest(strings.NewReader(string(data)))
	if err != nil || !slices.Equal(got.Argv, request().Argv) || !slices.Equal(got.Env, request().Env) || got.Name != "claude" || !got.Hold {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestWhatIsNoRequestIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*session.Request){
		"no program":    func(r *session.Request) { r.Argv = nil },
		"empty program": func(r *session.Request) { r.Argv = []string{""} },
		"NUL":           func(r *session.Request) { r.Argv = []string{"a", "b\x00c"} },
		"environment":   func(r *session.Request) { r.Env = []string{"NAME"} },
		"no variable":   func(r *session.Request) { r.Env = []string{"=x"} },
		"relative":      func(r *session.Request) { r.Dir = "work" },
		"name":          func(r *session.Request) { r.Name = "../x" },
		"target":        func(r *session.Request) { r.Name = "a:b" },
	} {
		r := request()
		change(&r)
		if _, err := r.Encode(); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s is encoded: %v", name, err)
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.ReadRequest(strings.NewReader(string(data))); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	r := request()
	r.Argv = append(r.Argv, strings.Repeat("x", session.MaxRequest))
	if _, err := r.Encode(); !errors.Is(err, session.ErrTooLong) {
		t.Errorf("a huge request is encoded: %v", err)
	}
	data, _ := json.Marshal(r)
	if _, err := session.ReadRequest(strings.NewReader(string(data))); !errors.Is(err, session.ErrTooLong) {
		t.Errorf("a huge request is read: %v", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"claude": true, "shell-2": true, "9": true, strings.Repeat("a", 40): true,
		"": false, "-a": false, "a-": false, "A": false, "a.b": false, "a:b": false, "a b": false, "=a": false, "a/b": false, "é": false,
		strings.Repeat("a", 41): false, "a\n": false,
	} {
		if _, err := session.ParseName(s); (err == nil) != want {
			t.Errorf("%q: %v", s, err)
		}
	}
	for program, want := range map[string]session.Name{
		"/usr/bin/make": "make", "Npm": "npm", "./run_tests.sh": "runtestssh", "-": "run", "": "run", "***": "run",
		strings.Repeat("x", 60): session.Name(strings.Repeat("x", 40)),
	} {
		if got := session.NameFor(program); got != want {
			t.Errorf("%q gives %q, want %q", program, got, want)
		}
	}
}

func TestALineAndAProgram(t *testing.T) {
	t.Parallel()
	if got := session.Line([]string{"cd x && make"}); !slices.Equal(got, []string{"/bin/bash", "-lc", "cd x && make"}) {
		t.Errorf("one word gives %q", got)
	}
	if got := session.Line([]string{"echo", "$HOME"}); !slices.Equal(got, []string{"echo", "$HOME"}) {
		t.Errorf("two words give %q", got)
	}
}

func TestAListOfABoxIsReadStrictly(t *testing.T) {
	t.Parallel()
	got, err := session.ReadList([]byte(`{"sessions":[{"name":"claude","created":1700000000,"attached":1},{"name":"run","created":5,"attached":0,"exit":2}]}`))
	if err != nil || len(got) != 2 || got[0].CreatedAt().Unix() != 1700000000 || got[1].Exit == nil || *got[1].Exit != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	one := `{"name":"a","created":1,"attached":0},`
	for name, text := range map[string]string{
		"a name with a path":  `{"sessions":[{"name":"../../x","created":1,"attached":0}]}`,
		"a name with escapes": `{"sessions":[{"name":"\u001b[2J","created":1,"attached":0}]}`,
		"no name":             `{"sessions":[{"created":1,"attached":0}]}`,
		"a far future":        `{"sessions":[{"name":"a","created":99999999999999,"attached":0}]}`,
		"a negative count":    `{"sessions":[{"name":"a","created":1,"attached":-1}]}`,
		"an unknown key":      `{"sessions":[],"x":1}`,
		"trailing data":       `{"sessions":[]} {}`,
		"too many":            `{"sessions":[` + strings.Repeat(one, 256) + strings.TrimSuffix(one, ",") + `]}`,
		"too long":            `{"sessions":[]` + strings.Repeat(" ", session.MaxList) + `}`,
	} {
		if got, err := session.ReadList([]byte(text)); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func FuzzReadList(f *testing.F) {
	f.Add([]byte(`{"sessions":[{"name":"claude","created":1700000000,"attached":1,"exit":3}]}`))
	f.Add([]byte(`{"sessions":[{"name":"a:b"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := session.ReadList(data)
		for _, i := range list {
			if _, bad := session.ParseName(string(i.Name)); err == nil && bad != nil {
				t.Errorf("the name %q came through", i.Name)
			}
		}
	})
}

func FuzzReadRequest(f *testing.F) {
	seed, err := request().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(seed))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := session.ReadRequest(strings.NewReader(text))
		if err == nil && r.Check() != nil {
			t.Errorf("%+v came through", r)
		}
	})
}

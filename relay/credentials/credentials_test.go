package credentials_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay/credentials"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

type world struct {
	*testing.T
	home   core.Home
	keeper *credentials.Keeper
}

// newWorld has a login of the agent, lent to the boxes a and b.
func newWorld(t *testing.T, agent credentials.Agent, login string) *world {
	home := core.Home(t.TempDir())
	w := &world{t, home, credentials.New(home, func() time.Time { return noon })}
	if err := os.MkdirAll(filepath.Dir(home.RelayDB()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.path(agent), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, box := range []string{"a", "b"} {
		if err := w.keeper.Lend(box, agent); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) path(agent credentials.Agent) string {
	return filepath.Join(string(w.home), string(agent)+"-credentials.json")
}

func (w *world) kept(agent credentials.Agent) string {
	w.Helper()
	text, err := os.ReadFile(w.path(agent))
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

func offer(agent credentials.Agent, login string, at time.Time) json.RawMessage {
	raw, err := json.Marshal(credentials.Offer{
		Schema: 1, Agent: agent, ContentBase64: base64.StdEncoding.EncodeToString([]byte(login)), CapturedAt: at,
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func recorded(credentials.Taken) error { return nil }

func (w *world) offer(box string, agent credentials.Agent, login string, at time.Time) error {
	_, err := w.keeper.Take(box, offer(agent, login, at), recorded)
	return err
}

func claude(refresh string, expires time.Time) string {
	return fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"x","refreshToken":%q,"expiresAt":%d}}`, refresh, expires.UnixMilli())
}

func codex(account, access string) string {
	return fmt.Sprintf(`{"tokens":{"id_token":"","access_token":%q,"refresh_token":"r","account_id":%q}}`, access, account)
}

// token is one whose claims name the account.
func token(account string) string {
	claims := fmt.Sprintf(`{"https://api.openai.com/auth":{"chatgpt_account_id":%q}}`, account)
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s"
}

// One box must not make its login the one that no later login can replace.
func TestAnExpiryFarAheadNeverWins(t *testing.T) {
	w := newWorld(t, credentials.Claude, claude("good", noon.Add(time.Hour)))
	for _, far := range []time.Time{noon.Add(401 * 24 * time.Hour), time.UnixMilli(9e15)} {
		if err := w.offer("a", credentials.Claude, claude("junk", far), noon); !errors.Is(err, credentials.ErrRefused) {
			t.Errorf("an expiry at %v: %v", far, err)
		}
	}
	if err := w.offer("b", credentials.Claude, claude("fresh", noon.Add(8*time.Hour)), noon); err != nil {
		t.Fatal(err)
	}
	if got := w.kept(credentials.Claude); !strings.Contains(got, "fresh") {
		t.Error("the true renewal was not kept")
	}
	before, err := os.ReadFile(w.path(credentials.Claude) + ".previous")
	if err != nil || !strings.Contains(string(before), "good") {
		t.Errorf("the version before it is gone: %v", err)
	}
	for _, path := range []string{w.path(credentials.Claude), w.path(credentials.Claude) + ".previous"} {
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// An expiry that got in by other means gives way, too.
func TestAnExpiryFarAheadThatIsKeptGivesWay(t *testing.T) {
	w := newWorld(t, credentials.Claude, claude("junk", time.UnixMilli(9e15)))
	if err := w.offer("a", credentials.Claude, claude("fresh", noon.Add(time.Hour)), noon); err != nil {
		t.Error(err)
	}
}

// What a box has sent before comes again after a restart, and must lose.
func TestAReplayLoses(t *testing.T) {
	for agent, versions := range map[credentials.Agent][3]string{
		credentials.Claude:   {claude("0", noon), claude("1", noon.Add(time.Hour)), claude("2", noon.Add(2*time.Hour))},
		credentials.Codex:    {codex("me", "0"), codex("me", "1"), codex("me", "2")},
		credentials.OpenCode: {`{"p":{"type":"api","key":"0"}}`, `{"p":{"type":"api","key":"1"}}`, `{"p":{"type":"api","key":"2"}}`},
	} {
		w := newWorld(t, agent, versions[0])
		for i, box := range []string{"a", "b"} {
			if err := w.offer(box, agent, versions[i+1], noon.Add(time.Duration(i-5)*time.Minute)); err != nil {
				t.Fatalf("%s: %v", agent, err)
			}
		}
		want := w.kept(agent)
		w.keeper = credentials.New(w.home, func() time.Time { return noon })
		if err := w.offer("a", agent, versions[1], noon.Add(-5*time.Minute)); !errors.Is(err, credentials.ErrOlder) {
			t.Errorf("%s: a replay: %v", agent, err)
		}
		if w.kept(agent) != want {
			t.Errorf("%s: a replay was kept", agent)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	later := noon.Add(time.Hour)
	opencode := `{"p":{"type":"oauth","refresh":"r","accountId":"me"},"w":{"type":"wellknown","key":"K","token":"t"}}`
	for name, test := range map[string]struct {
		agent    credentials.Agent
		have     string
		box      string
		offered  string
		captured time.Time
	}{
		"a box that nothing was copied into": {credentials.Claude, claude("0", noon), "stranger", claude("1", later), noon},
		"another agent's login":              {credentials.Claude, claude("0", noon), "a", codex("me", "1"), noon},
		"a time ahead":                       {credentials.Codex, codex("me", "0"), "a", codex("me", "1"), later},
		"no time":                            {credentials.Codex, codex("me", "0"), "a", codex("me", "1"), time.Time{}},
		"another account":                    {credentials.Codex, codex("me", "0"), "a", codex("them", "1"), noon},
		"no account":                         {credentials.Codex, codex("me", "0"), "a", codex("", "1"), noon},
		"another account's token":            {credentials.Codex, codex("me", "0"), "a", codex("me", token("them")), noon},
		"a key in place of tokens":           {credentials.Codex, codex("me", "0"), "a", `{"OPENAI_API_KEY":"sk"}`, noon},
		"a new provider":                     {credentials.OpenCode, opencode, "a", `{"q":{"type":"api","key":"k"}}`, noon},
		"a url":                              {credentials.OpenCode, opencode, "a", `{"https://x":{"type":"wellknown","key":"K","token":"t"}}`, noon},
		"wellknown":                          {credentials.OpenCode, opencode, "a", `{"w":{"type":"wellknown","key":"K","token":"u"}}`, noon},
		"another type":                       {credentials.OpenCode, opencode, "a", `{"p":{"type":"api","key":"k"}}`, noon},
		"another account of the provider":    {credentials.OpenCode, opencode, "a", `{"p":{"type":"oauth","refresh":"s","accountId":"them"}}`, noon},
		"a name that stands twice":           {credentials.Claude, claude("0", noon), "a", `{"claudeAiOauth":{},` + claude("1", later)[1:], noon},
		"no json":                            {credentials.Claude, claude("0", noon), "a", `{`, noon},
		"null":                               {credentials.Claude, claude("0", noon), "a", `null`, noon},
		"too large":                          {credentials.Claude, claude("0", noon), "a", strings.Repeat(" ", 200<<10) + claude("1", later), noon},
	} {
		w := newWorld(t, test.agent, test.have)
		err := w.offer(test.box, test.agent, test.offered, test.captured)
		if !errors.Is(err, credentials.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		if w.kept(test.agent) != test.have {
			t.Errorf("%s: the host's file was changed", name)
		}
	}
}

func TestOnlyKnownFieldsAreTaken(t *testing.T) {
	w := newWorld(t, credentials.Claude, `{"claudeAiOauth":{"accessToken":"x","refreshToken":"0","expiresAt":1},"mine":{"k":1}}`)
	err := w.offer("a", credentials.Claude,
		`{"claudeAiOauth":{"accessToken":"x","refreshToken":"1","expiresAt":2,"helper":"rm"},"mine":{"k":2},"mcpOAuth":{"s":{}}}`, noon)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.kept(credentials.Claude); strings.Contains(got, "rm") || strings.Contains(got, "mcpOAuth") || !strings.Contains(got, `"mine":{"k":1}`) {
		t.Errorf("kept %s", got)
	}
}

func TestAMixedOfferIsTakenInPart(t *testing.T) {
	w := newWorld(t, credentials.OpenCode, `{"p":{"type":"api","key":"0"}}`)
	taken, err := w.keeper.Take("a", offer(credentials.OpenCode, `{"p":{"type":"api","key":"1"},"https://x":{"type":"wellknown"}}`, noon), recorded)
	if err != nil || taken.Dropped != 1 {
		t.Fatalf("got %+v, %v", taken, err)
	}
	if got := w.kept(credentials.OpenCode); got != `{"p":{"type":"api","key":"1"}}` {
		t.Errorf("kept %s", got)
	}
}

func TestNothingIsWrittenThatIsNotRecorded(t *testing.T) {
	w := newWorld(t, credentials.Claude, claude("0", noon))
	full := errors.New("no room")
	_, err := w.keeper.Take("a", offer(credentials.Claude, claude("1", noon.Add(time.Hour)), noon), func(credentials.Taken) error { return full })
	if !errors.Is(err, full) || !strings.Contains(w.kept(credentials.Claude), `"0"`) {
		t.Errorf("got %v", err)
	}
}

// Whatever a box sends, no error repeats of it, and what is kept is one object.
func FuzzTake(f *testing.F) {
	for _, login := range []string{claude("SECRET", noon.Add(time.Hour)), codex("SECRET", "SECRET"), `{"SECRET":{"type":"api","key":"SECRET"}}`} {
		for _, agent := range []credentials.Agent{credentials.Claude, credentials.Codex, credentials.OpenCode, "SECRET"} {
			f.Add(string(offer(agent, login, noon)))
		}
	}
	f.Add(`{"SECRET":1}`)
	f.Fuzz(func(t *testing.T, payload string) {
		w := newWorld(t, credentials.Claude, claude("0", noon))
		_, err := w.keeper.Take("a", json.RawMessage(payload), recorded)
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("the error repeats the login: %v", err)
		}
		if !json.Valid([]byte(w.kept(credentials.Claude))) {
			t.Error("what is kept is no JSON")
		}
	})
}

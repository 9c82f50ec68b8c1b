package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/credentials"
)

// TestALoginLiesInTheUsersFileAlone hands logins in, good and bad ones, and looks
// for them in all that the relay keeps or tells.
func TestALoginLiesInTheUsersFileAlone(t *testing.T) {
	var log bytes.Buffer
	var home string
	g := newRig(t, func(c *Config) {
		c.Log, home = slog.New(slog.NewTextHandler(&log, nil)), string(c.Home)
	})
	login := func(refresh string, ahead time.Duration) string {
		text := fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"hunter2","refreshToken":"hunter2%s","expiresAt":%d}}`, refresh, time.Now().Add(ahead).UnixMilli())
		return base64.StdEncoding.EncodeToString([]byte(text))
	}
	post := func(content string) string {
		body := fmt.Sprintf(`{"type":%q,"payload":{"schema":1,"agent":"claude","contentBase64":%q,"capturedAt":%q}}`,
			wire.CredentialsEvent, content, time.Now().Format(time.RFC3339))
		w := g.do("POST", "/events", body)
		if w.Code != 202 {
			t.Errorf("answers %d %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	first, err := base64.StdEncoding.DecodeString(login("-1", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "claude-credentials.json")
	if err := os.WriteFile(file, first, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(home, "relay"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := post(login("-2", 2*time.Hour)); !strings.Contains(got, `"accepted":false`) {
		t.Errorf("a box that nothing was copied into: %s", got)
	}
	if err := credentials.New(g.cfg.Home, time.Now).Lend(g.box.ID, credentials.Claude); err != nil {
		t.Fatal(err)
	}
	if got := post(login("-3", 401*24*time.Hour)); !strings.Contains(got, `"accepted":false`) {
		t.Errorf("a login that never expires: %s", got)
	}
	if got := post(login("-4", 2*time.Hour)); !strings.Contains(got, `"accepted":true`) {
		t.Errorf("a renewal: %s", got)
	}
	if got := post(login("-5", time.Hour)); !strings.Contains(got, `"accepted":false`) {
		t.Errorf("an older one: %s", got)
	}
	if kept, err := os.ReadFile(file); err != nil || !bytes.Contains(kept, []byte("hunter2-4")) {
		t.Errorf("the renewal was not kept: %v", err)
	}
	entries, err := g.store.Audit(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(audit), "credentials.update"); n != 3 {
		t.Errorf("%d entries; want two refusals and one renewal: %s", n, audit)
	}
	events := g.operate("GET", "/admin/events", "").Body.String()
	for what, text := range map[string]string{"the audit log": string(audit), "the events": events, "the log": log.String()} {
		for _, secret := range []string{"hunter2", login("-4", 2*time.Hour)[:40]} {
			if strings.Contains(text, secret) {
				t.Errorf("a login is in %s: %s", what, text)
			}
		}
	}
}

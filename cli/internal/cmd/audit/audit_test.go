package audit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/sqlite"
	"github.com/madarco/agentbox/sandbox-core/state"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// kept is a home whose relay wrote three entries, an hour apart, and still runs.
func kept(t *testing.T) (home core.Home, relay *sqlite.Store) {
	t.Helper()
	home = core.Home(t.TempDir())
	now := noon.Add(-4 * time.Hour)
	relay, err := sqlite.Open(t.Context(), home.RelayDB(), sqlite.Options{Head: home.AuditHead(), Now: func() time.Time { return now }})
	must(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	for _, e := range []store.Entry{
		{BoxID: "b00000001", Actor: "policy", Action: "work.begin", Detail: json.RawMessage(`{"method":"git.push","reason":"its own branch"}`)},
		{BoxID: "b00000002", Actor: "box", Action: "work.refuse", Detail: json.RawMessage(`{"method":"x\u001b[2Jy","reason":"no such \u202e method"}`)},
		{Actor: "operator uid=0", Action: "relay.shutdown"},
	} {
		now = now.Add(time.Hour)
		_, err := relay.AppendAudit(t.Context(), e)
		must(t, err)
	}
	return home, relay
}

func options(home core.Home) (o *Options, out, words func() string) {
	s, _, stdout, stderr := streams.Test()
	boxes := []core.Box{{ID: "b00000001", Name: "app", ProjectRoot: "/p"}}
	return &Options{
		Streams: s, Now: func() time.Time { return noon },
		Home:  func() (core.Home, error) { return home, nil },
		Boxes: func() ([]core.Box, string, error) { return boxes, "/p", nil },
		Box:   func(ref string) (core.Box, error) { return state.Resolve(boxes, ref, "/p") },
	}, stdout.String, stderr.String
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

func TestEntriesAreShownWithWhatABoxSaysQuoted(t *testing.T) {
	home, _ := kept(t)
	o, out, _ := options(home)
	must(t, Run(t.Context(), o))
	got := lines(out())
	if len(got) != 4 {
		t.Fatalf("%q", got)
	}
	for i, want := range []string{"N  TIME ", `work.begin git.push`, `work.refuse "x\u001b[2Jy"`, "relay.shutdown"} {
		if !strings.Contains(got[i], want) {
			t.Errorf("line %d is %q; want %q", i, got[i], want)
		}
	}
	for _, want := range []string{" app ", ` policy `, `"its own branch"`, ` b00000002 `, `"no such \u202e method"`} {
		if !strings.Contains(out(), want) {
			t.Errorf("no %q in\n%s", want, out())
		}
	}
}

func TestWhichEntries(t *testing.T) {
	home, _ := kept(t)
	for _, tc := range []struct {
		ref, since string
		want       []int64
	}{
		{"", "", []int64{1, 2, 3}},
		{"app", "", []int64{1}},
		{"b00000002", "", []int64{2}}, // is gone
		{"", "1", []int64{2, 3}},
		{"", "2h", []int64{2, 3}},
		{"", "2026-01-02T10:30:00Z", []int64{3}},
		{"app", "1", nil},
	} {
		o, out, _ := options(home)
		o.Ref, o.Since, o.JSON = tc.ref, tc.since, output.JSON{On: true}
		must(t, Run(t.Context(), o))
		var got []wire.AuditEntry
		must(t, json.Unmarshal([]byte(out()), &got))
		var numbers []int64
		for _, e := range got {
			numbers = append(numbers, e.Seq)
		}
		if fmt.Sprint(numbers) != fmt.Sprint(tc.want) {
			t.Errorf("%q since %q: %v; want %v", tc.ref, tc.since, numbers, tc.want)
		}
	}
	for what, change := range map[string]func(*Options){
		"no such box":       func(o *Options) { o.Ref = "none" },
		"no time":           func(o *Options) { o.Since = "yesterday" },
		"a negative number": func(o *Options) { o.Since = "-1" },
		"a part to verify":  func(o *Options) { o.Verify, o.Since = true, "1" },
	} {
		o, out, _ := options(home)
		change(o)
		if err := Run(t.Context(), o); fail.Of(err).Code != fail.Usage || out() != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAFieldOfEntries(t *testing.T) {
	home, _ := kept(t)
	o, out, _ := options(home)
	o.JSON = output.JSON{On: true, Fields: []string{"seq", "action"}}
	o.Since = "2"
	must(t, Run(t.Context(), o))
	if out() != `[{"action":"relay.shutdown","seq":3}]`+"\n" {
		t.Error(out())
	}
	o.JSON.Fields = []string{"secret"}
	var unknown *output.UnknownFieldError
	if err := Run(t.Context(), o); !errors.As(err, &unknown) {
		t.Error(err)
	}
}

// TestVerifyWithARelayAndWithout also holds that nothing is written: the files
// are the same before and after.
func TestVerifyWithARelayAndWithout(t *testing.T) {
	home, relay := kept(t)
	for _, how := range []string{"running", "stopped"} {
		if how == "stopped" {
			must(t, relay.Close())
		}
		before := files(t, home)
		o, out, _ := options(home)
		o.Verify, o.JSON = true, output.JSON{On: true, Fields: []string{"entries"}}
		must(t, Run(t.Context(), o))
		if out() != `{"entries":3}`+"\n" {
			t.Errorf("%s: %s", how, out())
		}
		if after := files(t, home); before != after {
			t.Errorf("%s: something was written:\n%s\nwas\n%s", how, after, before)
		}
	}
}

// files are the files of the database and the head, with all their bytes; the
// index of the log is SQLite's scratch.
func files(t *testing.T, home core.Home) string {
	t.Helper()
	var all strings.Builder
	for _, path := range []string{home.RelayDB(), home.RelayDB() + "-wal", home.AuditHead()} {
		data, err := os.ReadFile(path)
		if len(data) > 0 { // an empty log is none
			fmt.Fprintf(&all, "%s %x %v\n", filepath.Base(path), data, err)
		}
	}
	return all.String()
}

func TestVerifyWhileARelayWrites(t *testing.T) {
	home, relay := kept(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := relay.AppendAudit(t.Context(), store.Entry{Action: "act"}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range 20 {
		o, _, _ := options(home)
		o.Verify = true
		if err := Run(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	cancel()
	must(t, <-done)
}

func TestVerifyTellsWhatDoesNotHold(t *testing.T) {
	const untie = `DROP TRIGGER audit_is_not_cut; DROP TRIGGER audit_is_not_changed;`
	for what, tc := range map[string]struct{ change, says string }{
		"an entry was changed": {untie + `UPDATE audit SET actor = 'policy' WHERE seq = 2`, "entry 2 does not follow entry 1"},
		"one is missing":       {untie + `DELETE FROM audit WHERE seq = 1`, "entry 2 does not follow entry 0"},
		"the end is cut":       {untie + `DELETE FROM audit WHERE seq = 3`, "ends at entry 2 and does not hold the known entry 3"},
		"the database is gone": {"", "is gone, and entry 3 was there already"},
		"the head is gone":     {"", "nothing says where it ended"},
	} {
		home, relay := kept(t)
		must(t, relay.Close())
		switch what {
		case "the database is gone":
			must(t, os.RemoveAll(filepath.Dir(home.RelayDB())))
		case "the head is gone":
			must(t, os.Remove(home.AuditHead()))
		default:
			db, err := sql.Open("sqlite", home.RelayDB())
			must(t, err)
			_, err = db.Exec(tc.change)
			must(t, errors.Join(err, db.Close()))
		}
		o, out, _ := options(home)
		o.Verify = true
		err := Run(t.Context(), o)
		if err == nil || fail.Of(err).Code != fail.Failed || fail.Of(err).Next == "" || !strings.Contains(err.Error(), tc.says) || out() != "" {
			t.Errorf("%s: %v, %s", what, err, out())
		}
	}
}

func TestNothingWasWrittenDown(t *testing.T) {
	home := core.Home(t.TempDir())
	for _, verify := range []bool{false, true} {
		o, out, words := options(home)
		o.Verify = verify
		if err := Run(t.Context(), o); err != nil || out() != "" || words() != "nothing was written down\n" {
			t.Errorf("%v, %q, %q", err, out(), words())
		}
	}
	if left, err := os.ReadDir(string(home)); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

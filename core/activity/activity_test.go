package activity

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

func minute(m int) string {
	return time.Date(2026, 1, 1, 0, m, 0, 0, time.UTC).Format(time.RFC3339)
}

func TestIdleSince(t *testing.T) {
	for _, tc := range []struct {
		why, status string
		since       int // -1: not idle
	}{
		{"one still works", fmt.Sprintf(`{"claude":{"state":"idle","updatedAt":%q},"codex":{"state":"working","updatedAt":%q}}`, minute(40), minute(59)), -1},
		{"the later of two", fmt.Sprintf(`{"claude":{"state":"idle","updatedAt":%q},"codex":{"state":"idle","updatedAt":%q}}`, minute(40), minute(50)), 50},
		{"waits for a person", fmt.Sprintf(`{"claude":{"state":"waiting","updatedAt":%q}}`, minute(10)), -1},
		{"has a question", fmt.Sprintf(`{"claude":{"state":"question","updatedAt":%q}}`, minute(10)), -1},
		{"has a plan", fmt.Sprintf(`{"claude":{"state":"end-plan","updatedAt":%q}}`, minute(10)), -1},
		{"is busy with itself", fmt.Sprintf(`{"claude":{"state":"compacting","updatedAt":%q}}`, minute(10)), -1},
		{"needs a look", fmt.Sprintf(`{"claude":{"state":"error","updatedAt":%q}}`, minute(10)), -1},
		{"no agent", `{"schema":1}`, -1},
		{"no time", `{"claude":{"state":"idle"}}`, -1},
		{"a time of null", `{"claude":{"state":"idle","updatedAt":null}}`, -1},
		{"a state of a later version counts as none", fmt.Sprintf(`{"claude":{"state":"dreaming","updatedAt":%q},"codex":{"state":"idle","updatedAt":%q}}`, minute(40), minute(30)), 30},
		{"an agent that is no object", `{"claude":"idle"}`, -1},
		{"no JSON", `{`, -1},
	} {
		since, ok := IdleSince(Agents(json.RawMessage(tc.status)))
		if ok != (tc.since >= 0) || ok && since.Format(time.RFC3339) != minute(tc.since) {
			t.Errorf("%s: %v, %v", tc.why, since, ok)
		}
	}
}

func TestActive(t *testing.T) {
	status := fmt.Sprintf(`{"claude":{"state":"idle","updatedAt":%q},"codex":{"state":"working"},"opencode":{"state":"waiting","updatedAt":%q}}`, minute(40), minute(50))
	all := Agents(json.RawMessage(status))
	if got, ok := Active(all); !ok || got.Name != "codex" {
		t.Errorf("beside one at work: %+v, %v", got, ok)
	}
	if got, ok := Active([]Agent{all[0], all[2]}); !ok || got.Name != "opencode" {
		t.Errorf("of two that rest: %+v, %v", got, ok)
	}
	if got, ok := Active(nil); ok {
		t.Errorf("of none: %+v", got)
	}
}

func FuzzAgents(f *testing.F) {
	f.Add([]byte(`{"claude":{"state":"idle","updatedAt":"2026-01-01T00:00:00Z"}}`))
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		all := Agents(snapshot)
		if since, ok := IdleSince(all); ok && since.IsZero() {
			t.Errorf("idle since no time: %+v", all)
		}
	})
}

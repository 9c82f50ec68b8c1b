package wire

import "testing"

func TestRefusalExit(t *testing.T) {
	for reason, want := range map[string]int{
		"denied":                        ExitDenied,
		"denied by the user: not today": ExitDenied,
		"denied: not today":             ExitDenied,
		"expired without an answer":     ExitTimeout,
		"fetch first":                   0,
		"deniedness":                    0,
		"":                              0,
	} {
		if got, ok := RefusalExit(reason); got != want || ok != (want != 0) {
			t.Errorf("RefusalExit(%q) = %d, %v; want %d", reason, got, ok, want)
		}
	}
}

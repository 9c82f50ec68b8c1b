package wire

import "strings"

// The first word of a refusal that a reader must tell from others. It opens the reason of a
// refused push (report-status "ng <ref> <reason>") and tells `agentbox-ctl git
// push` its exit code.
const (
	RefusalDenied  = "denied"
	RefusalExpired = "expired"
	// RefusalBusy opens a reason that passes: the same hand-in may go through in
	// a moment.
	RefusalBusy = "busy"
)

// RefusalExit is the exit code that belongs to the reason of a refused push.
// ok is false for reasons that no person gave; git's own code stands then.
func RefusalExit(reason string) (code int, ok bool) {
	word, _, _ := strings.Cut(reason, " ")
	switch strings.TrimSuffix(word, ":") {
	case RefusalDenied:
		return ExitDenied, true
	case RefusalExpired:
		return ExitTimeout, true
	}
	return 0, false
}

package wire

import "strings"

// EventSource says who speaks in an event.
type EventSource string

// What a box says is its word alone; what the relay says happened.
const (
	FromBox   EventSource = "box"
	FromRelay EventSource = "relay"
)

// RelayEventPrefix begins the types that the relay alone gives its events.
const RelayEventPrefix = "relay."

// CredentialsEvent is the type under which a box hands in a login that its
// agent has renewed. It is never kept as an event.
const CredentialsEvent = "credentials-updated"

// SourceOf tells from an event's type who speaks in it.
func SourceOf(kind string) EventSource {
	if strings.HasPrefix(kind, RelayEventPrefix) {
		return FromRelay
	}
	return FromBox
}

// Package bridge lets a box that no socket of the host reaches ask for what a
// box with a channel asks for: the box parks its requests, and the host comes
// to fetch them.
//
// Box is the half in the box: a queue of parked requests, the box's events, its
// newest status and logins, and the routes for both sides. Poller is the half on
// the host, one per box; Fleet owns the pollers and what they must remember.
//
// Invariants:
//   - The box decides nothing and the host believes nothing: what a poll brings
//     ends in Host, the same brain that answers a box with a channel.
//   - Each action runs once. A redelivered one is known by its id while the host
//     lives, and by its request id in the host's store after a restart; that is
//     why an action is handed out again only for redeliverFor, which is less
//     than the time for which the store keeps results.
//   - The box's token opens /rpc and /events alone, the bridge's token /bridge/
//     alone; there are no operator's routes. Tokens are compared as hashes in
//     constant time, an empty one is refused when a Box is made.
//   - The bridge's token goes over TLS, or to the machine itself, and follows no
//     redirect and no proxy.
//   - Logins are in neither half's log of events: the box holds the newest one of
//     each agent until the host says that it has it.
//   - Everything that the other side can make grow has a bound.
package bridge

// Package remote is the half of the store that a laptop has at a plane: what it
// pushes up. Store makes the calls, each typed and bounded; Follower pushes what
// the laptop's own store holds, which is the queue while the plane is away.
//
// Invariants:
//   - Nothing goes up that a plane need not know: no token of a box, no path of
//     the laptop, no login, no audit entry, no request, no text of a box in a
//     question.
//   - The laptop's bearer goes over TLS, or to the machine itself, through no
//     proxy and after no redirect.
//   - What waits is bounded by the ring of events of each box; the rest is pushed
//     as it is when the plane is back.
package remote

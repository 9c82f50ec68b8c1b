// Package daemon is the long-lived process of a box: the relay's address, the
// landing of commits, and the control socket.
//
// Invariants:
//   - There is one daemon: it holds a lock beside its socket and one in its
//     state folder before it touches anything; a second one steps back.
//   - Each unit (the forwarder, a repository's watcher) is owned by one
//     goroutine, which the daemon stops and waits for.
//   - Nothing listens on the relay's address while the box has no relay.
//   - It is no subreaper and waits for its own children alone.
package daemon

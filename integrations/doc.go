// Package integrations describes the services that a box may use through the
// host's own command-line tools: which operations exist, which flags they
// take, and what is refused. It is data and pure checks.
//
// Invariants:
//   - Nothing here starts a process or opens a socket.
//   - An operation that no descriptor names does not exist.
package integrations

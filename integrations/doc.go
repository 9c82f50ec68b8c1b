// Package integrations describes the services that a box may use through the
// host's own command-line tools: which operations exist, which arguments they
// take, where they write, and what is refused. It is data and pure checks. A
// service is one file here and one line in the registry.
//
// Invariants:
//   - Nothing here starts a process or opens a socket.
//   - An operation that no descriptor names does not exist.
//   - What a program is called with is built anew from options and words that
//     the descriptor declares: no argument of a box is passed on as it came.
//   - No argument names a file of the host or is read from one.
package integrations

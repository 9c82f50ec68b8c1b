// Package core is the vocabulary that every AgentBox module shares: the box
// record, validated names, object ids and the type for text that a box wrote.
//
// Invariants:
//   - A value of a validated type (BranchName, RemoteName, ObjectID, BoxName,
//     BoxPath) was made by its Parse function or is the zero value. JSON
//     decoding goes through the same check.
//   - Text from a box reaches a person only through Untrusted.Quote.
//   - Nothing here starts a process or opens a socket.
package core

// Package githttp is the smart-HTTP endpoint (gitprotocol-http(5)) by which a
// box reaches the project's remote. Git is the protocol; no git program runs
// here. Advertisements and ls-refs are written by us, a push is parsed into
// typed updates and the pack as it streams, and only the body of a fetch goes on to
// the gate.
//
// Invariants:
//   - The command section of a push is decoded strictly: what is not exactly
//     the grammar of gitprotocol-pack(5) is refused before anything runs.
//   - A capability that is not on our list is refused, in both directions.
//   - Every byte is counted, inflated ones too, and none of a pack is kept here.
//   - An early answer still reads the body, else the client reports a broken
//     pipe in place of the reason.
package githttp

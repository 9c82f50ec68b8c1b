// Package relay is the vocabulary of the relay: what a gate must do, what a
// store must keep. The relay is the service that boxes call for what they may
// not do themselves.
//
// The brain lives in package server; what runs git is package gitgate, a leaf
// that the hosted plane never links.
//
// Invariants:
//   - Everything that a box asks for is decoded into a type, decided by
//     core/policy, written down, and only then done.
//   - No row, no run: the audit entry of an action exists before the action.
package relay

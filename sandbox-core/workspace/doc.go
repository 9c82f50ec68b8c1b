// Package workspace ties the user's repository to a box: which folder may be
// a project, what the box is told of the relay, and the stream that fills it.
//
// Invariants:
//   - A project at or above the user's home, or one that overlaps the state of
//     agentbox, is refused before anything is made.
//   - The token travels in the stream alone; neither a file of the host nor an
//     argument holds it.
//   - What the box reads of the user's repository comes from package gitgate.
package workspace

// Package cli holds the agentbox command, which wires all modules together.
//
// Invariants:
//   - A parser only parses, a run function only works: commands are tested by
//     calling the run function with its options.
//   - Data goes to standard output, words to standard error.
//   - Text from a box reaches the terminal quoted, or as the raw stream of a
//     terminal session that the user asked for.
package cli

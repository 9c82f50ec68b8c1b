// Package initd is process 1 of a box. It starts the daemon when the host gives
// the word, starts it again when it dies, reaps every orphan, and steps down
// cleanly when the box stops.
//
// Invariants:
//   - Nothing but process 1 calls wait(-1); the daemon waits for its own
//     children alone, so no exit status goes to the wrong reader.
//   - Each start of the container waits for the host's word anew: the word is
//     a line in a FIFO, which keeps nothing over a restart.
//   - It runs no program but the daemon, and gives way within the 25 seconds
//     after which the engine kills the box.
package initd

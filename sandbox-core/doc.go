// Package sandboxcore groups what every host-side provider shares: the state
// file (package state) and the filling of a box (package workspace).
//
// Invariants:
//   - State is written atomically under a lock; state that a newer version
//     wrote is kept as it is.
//   - No file that a box can write is interpreted here.
package sandboxcore

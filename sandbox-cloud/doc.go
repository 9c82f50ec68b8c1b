// Package sandboxcloud is the generic provider of boxes on machines that are
// not here, with one package per backend.
//
// Invariants:
//   - A machine that was ordered is either recorded or removed.
//   - A backend moves bytes; what a box may do is decided in the relay alone.
package sandboxcloud

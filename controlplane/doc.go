// Package controlplane is the hosted control plane: it does the host's part
// for boxes while the laptop is off.
//
// Invariants:
//   - The plane starts no process and links no git, Docker or cloud client.
//   - It is stateless between requests: the store is the truth.
package controlplane

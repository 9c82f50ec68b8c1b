// Package transfer is the end-to-end suite of files that pass between a real box
// and the user's machine.
package transfer

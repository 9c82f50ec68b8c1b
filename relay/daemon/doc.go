// Package daemon is the life of the relay on the user's machine: it serves in
// the foreground, starts detached when a command needs it, stops, and says how
// it is.
//
// Invariants:
//   - At most one relay serves a home: it holds a lock as long as it lives, and
//     whoever starts one holds another.
//   - A relay is there when its operator socket answers; a pid in a file is
//     never proof of anything.
//   - A relay that a command started by itself takes nothing of the command's
//     environment that could change a decision or choose a program.
//   - Only this user reaches the operator socket.
package daemon

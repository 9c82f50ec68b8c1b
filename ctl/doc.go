// Package ctl holds agentbox-ctl, the program inside every box: process 1, the
// supervisor daemon, and the client that the agent's shell uses.
//
// Invariants:
//   - Process 1 forks the daemon, reaps, forwards signals, and does nothing else.
//   - The box's token is read from a 0600 file on a tmpfs and never put into
//     an environment, argv or log.
//   - Nothing listens on the relay's address in the box without a relay.
package ctl

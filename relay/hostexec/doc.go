// Package hostexec runs programs of the host for host actions: the user's own
// gh, the command line of an integration, an opener of pages.
//
// Invariants:
//   - A program is an absolute path in a folder of PATH, found once, and lies in
//     no folder that a box works on: what a box brings home is never run.
//   - What runs has no terminal and no shell between; it starts in an empty
//     folder made for the call, with an environment by allow-list.
//   - It is ended, with all of its own, at its deadline or when the caller's
//     context ends: asked first, then killed. What it prints is kept up to a
//     bound.
//   - Where its process id must be written down first, it does nothing before.
package hostexec

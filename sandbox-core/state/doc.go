// Package state keeps the records of all boxes in one file, state.json, the
// host's truth about which boxes there are.
//
// Invariants:
//   - A reader sees a whole file: it is written aside, synced and renamed.
//   - Writers take turns under a lock that the kernel drops with its holder.
//   - What this version does not know in the file survives a rewrite.
//   - A file that cannot be understood, or that a newer version wrote, is
//     refused and left as it is.
//   - A name, an id and a project's index are given out once, under the lock,
//     before anything is made for the box.
package state

// Package workspace makes, inside a box, the repository that the host describes
// in the setup stream: history by alternates, the user's index, files and
// operation in progress exactly as they were on the host.
//
// Invariants:
//   - A repository that could not be made whole is an error; nothing is made on
//     top of one that is there.
//   - No hook, filter or helper of the user exists here, but for the filter of
//     git-lfs that is this program's own, and git runs without
//     the system's and the box user's configuration.
//   - Files are written below the work tree only.
package workspace

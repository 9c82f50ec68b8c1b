// Package forge does what boxes ask of the forge that hosts their repository
// (pull requests, runs of workflows, review comments), through the host's own gh.
//
// Invariants:
//   - Arguments of a box are read by one closed table per operation into a
//     request; what gh is called with is built from the request alone.
//   - Every call names the repository that the user's record of the box names,
//     and no other; no argument reaches another host or repository, a file of
//     the host, its environment, an editor, a pager or a browser.
//   - What is published says which box it comes from, and is judged by package
//     outtext first.
//   - A write that may have happened is never done again by itself.
package forge

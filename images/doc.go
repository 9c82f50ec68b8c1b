// Package images is the box image as data: for each flavour a Dockerfile with
// the files it copies, the agentbox-ctl binaries that a release carries, and
// the fingerprint over all of it. It starts nothing and talks to no engine.
//
// Invariants:
//   - The build context and the fingerprint are made from one list of files,
//     so the fingerprint covers everything that the build reads; what a host
//     adds of its own, its certificates, has a digest of its own.
//   - The same recipe gives the same bytes: no time, owner or mode of the
//     machine that builds enters the context.
//   - What a build takes from npm is held against the hashes in lock files,
//     whichever registry gives it; no file here names one.
//   - Nothing but certificates leaves the host's certificate folder.
package images

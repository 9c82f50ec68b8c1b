// Command modproxy packs the modules of the workspace into a file module proxy,
// so that each can be built alone, as somebody who downloads it would.
//
// Modules version on their own. The versions that are served are those that
// some go.mod or go.work names: one that has a tag <folder>/<version> comes
// from that tag, one that has none yet comes from the tree. A module that
// nothing names is never published and is left out.
//
// Invariants, broken by none of the flags:
//   - A go.mod with a replace directive is refused, and so is a cycle between
//     modules.
//   - go.work replaces every sibling version that some go.mod names by the
//     sibling's folder; without that not even the workspace builds.
//   - Between releases no go.sum names a sibling: its content changes with
//     every commit. In a release commit the sums are those of what is packed.
//   - What git ignores is in no module.
package main

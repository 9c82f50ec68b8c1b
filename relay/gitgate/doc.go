// Package gitgate is the only code that runs git on the host. It reads the
// user's repository, keeps the seed store that boxes read from, and is the gate
// through which every commit of a box passes on its way to the user's
// repository and to the remote. Host implements relay.Gates.
//
// A command that makes a box uses it like this:
//
//	host, err := gitgate.New(home, gitgate.Options{})
//	repo, err := host.Open(ctx, dir)              // typed errors, see ErrNotRepository and its siblings
//	record := repo.Record(branch)                 // core.Repo for the box record
//	err = host.RefreshSeed(ctx, repo)             // objects that every box of the project may see
//	gate, err := host.Gate(ctx, box, record)      // makes the gate, keeps the base alive
//	carry, err := host.Capture(ctx, repo, gitgate.CaptureOptions{})
//	header, err := host.SetupRepo(ctx, repo, record, carry, place)
//	err = carry.WriteSections(ctx, w)             // after setup.WriteHeader, once per repository in order
//
// host.SeedObjects(key) is the folder to bind read-only into the box. RefreshSeed
// comes first; Gate and Capture may then run side by side.
//
// Invariants:
//   - git runs on a box's objects only in repositories that the host alone
//     writes, with hooks, helpers and system configuration off.
//   - What a box sends is scanned by our own decoder before git reads it, stays
//     in quarantine until it is known to be whole and harmless, is taken into the
//     box's own gate first, and reaches the user's repository only from there.
//   - No byte of a box starts an argument: arguments are fixed words, object
//     ids and validated names; everything else goes through standard input.
//   - The seed holds what every box of the project may see and never loses an
//     object while a gate borrows from it.
//   - Reading the user's repository writes nothing into it.
package gitgate

// Package store says what the relay must remember, and holds the rules that
// every driver keeps: the life of an approval, the audit chain, the bounds.
//
// Drivers (store/memory, store/sqlite) only persist what the pure functions
// here decide, and all pass store/storetest.
//
// # The life of an approval
//
//	            yes               Begin              End
//	pending ----------> approved -------> executing -----> done | failed
//	   | | \               |  \
//	no | | deadline        |   box forgotten, withdrawn
//	   | |  \              |    \
//	   | |   expired <-----+     cancelled
//	   | |              deadline
//	   | box forgotten, withdrawn
//	   |  cancelled
//	denied
//
// Each edge is taken by compare-and-set, so of two answers one wins, and of two
// executors one runs. While an approval is pending, approved or executing, the
// same request (box and digest) joins it instead of opening another. A waiter
// that leaves changes nothing: the question stays until its deadline, and a yes
// stays good until then for the next caller with the same digest, once.
//
// Invariants:
//   - Nothing leaves approved for executing without a yes to this digest before
//     the deadline, and it does so once, together with the intent that lets a
//     crashed relay find out what became of it.
//   - Every edge, every start and every end of a piece of work is an audit
//     entry of the same transaction: no row, no run.
//   - Audit entries are only appended. Each one's hash covers the hash before
//     it; nothing a box does removes or changes one.
//   - An acknowledged write survives the loss of power (sqlite); an event
//     survives the process alone.
//   - A login is kept by no store as an event.
//   - A reader that asks for what came after the last event it saw misses none
//     that is still kept and sees none twice.
//   - Tokens come in and lie here as SHA-256 only.
//   - What a box can make the store keep is bounded: events by count and size,
//     results by bytes, questions by count. Audit bytes are counted per box, so
//     that the caller can refuse a box that has used up its share.
//
// Times are the store's own: one clock per store, cut to the millisecond, so
// that replicas with different clocks agree on every deadline.
package store

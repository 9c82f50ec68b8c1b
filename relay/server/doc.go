// Package server is the brain of the relay: it decides what boxes ask for,
// asks the user where policy says so, writes everything down, and has it done.
//
// There are two sets of routes that share nothing. A box reaches its own
// channel, which knows no operator route; the user reaches the operator socket.
// What a box asks for, be it by RPC or by plain git, ends in one function,
// perform, which is the only way that anything is done:
//
//	decide -> (ask) -> write the intent -> do -> write the outcome
//
// Invariants:
//   - Identity comes from the channel; the token is a second proof. A box's
//     token on another box's channel is refused and audited.
//   - No row, no run: the intent and its audit entry are durable before the
//     work begins, and the child's pid before the child may do anything.
//   - What was approved is what runs: object ids and the URL that were shown,
//     leased on the old values that were shown.
//   - A caller that goes away withdraws nothing and runs nothing; work that has
//     begun is finished, here or after the next start.
//   - Whatever a box can use up is counted per box; the operator's socket has
//     none of these counts.
package server

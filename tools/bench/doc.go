// Command bench measures whole programs as a user meets them: start-up, a
// create, a commit until it has landed, a push through the relay.
//
// Machines differ and are busy, so nothing is judged by absolute time. Each
// measurement has a floor, the same work without AgentBox, that is taken in the
// same run and in turns with it; what counts is the ratio, or the time on top.
// The budgets are printed beside and asserted nowhere.
package main

// Package hostile is the end-to-end suite of the promise that what runs in a
// box does not touch the host. An agent that has become root in its box plants
// a program in every place where git or a tool would look for one, speaks the
// endpoint's protocol by hand, sends packs that git itself would never write,
// and says what is meant for the user's terminal. Then the user works on.
//
// Each vector is a row of a table, and the run prints what came of each. What
// must hold is judged on the whole: no planted program has run, and of the
// user's home and of the remote nothing differs but what a box may change.
package hostile

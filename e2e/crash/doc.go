// Package crash kills the relay at random moments, again and again: of a push,
// and under events, questions and pushes at once. The relay is a process of its
// own, the box reaches it by its socket, and the remote is slow to say yes.
package crash

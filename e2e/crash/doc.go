// Package crash kills the relay at random moments of a push, again and again.
// The relay is a process of its own, the box reaches it by its socket, and the
// remote is slow to say yes.
package crash

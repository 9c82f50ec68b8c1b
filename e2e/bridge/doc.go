// Package bridge tries the bridge to a box across a network that fails: the box
// is a process in a network namespace of its own, behind a link that drops
// packets and goes down, and behind a proxy of ours that delays, gives up with
// 504 and says things twice. Either side is restarted on the way. Whatever
// happens, nothing is done twice, and what was answered was done.
package bridge

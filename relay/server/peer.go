package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
)

// Peer is the process at the other end of a Unix socket, as the kernel tells.
type Peer struct {
	UID int
	PID int
	// Program is the path of its executable, where the platform tells it.
	Program string
}

// Actor is how the audit log names the peer.
func (p Peer) Actor() string {
	s := fmt.Sprintf("operator uid=%d pid=%d", p.UID, p.PID)
	if p.Program != "" {
		s += fmt.Sprintf(" program=%q", p.Program)
	}
	return s
}

var errPeer = errors.New("not a process of this user on this host")

// check holds the peer to be the user who runs the relay, in the same pid
// namespace: a process of a container with the same uid is somebody else.
func (p Peer) check() error {
	if p.UID != os.Getuid() || p.PID <= 0 || !samePIDNamespace(p.PID) {
		return errPeer
	}
	return nil
}

type peerKey struct{}

// WithPeer is the ConnContext of the operator socket's server: it notes who
// connects, once per connection.
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	peer, err := peerOf(conn)
	if err == nil {
		err = peer.check()
	}
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peer)
}

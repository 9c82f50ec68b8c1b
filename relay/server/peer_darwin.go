package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerOf reads LOCAL_PEERCRED and LOCAL_PEERPID (unix(4)).
func peerOf(conn net.Conn) (Peer, error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return Peer{}, errPeer
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var peer Peer
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		var cred *unix.Xucred
		if cred, credErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); credErr != nil {
			return
		}
		peer.UID = int(cred.Uid)
		peer.PID, credErr = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	}); err != nil {
		return Peer{}, err
	}
	return peer, credErr
}

func samePIDNamespace(int) bool { return true } // there is only one

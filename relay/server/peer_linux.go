package server

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peerOf reads SO_PEERCRED (unix(7)).
func peerOf(conn net.Conn) (Peer, error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return Peer{}, errPeer
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Peer{}, err
	}
	if credErr != nil {
		return Peer{}, credErr
	}
	program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", cred.Pid)) // only told, never trusted
	return Peer{UID: int(cred.Uid), PID: int(cred.Pid), Program: program}, nil
}

// samePIDNamespace is false where the process lives in another one, and where
// the kernel does not say: it keeps that from us for processes of other user
// namespaces, and nobody waits for an answer who has ended.
func samePIDNamespace(pid int) bool {
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return false
	}
	ours, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && ours == theirs
}

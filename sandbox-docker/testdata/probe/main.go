// The probe tries what a sealed box must refuse, and prints one line for each:
// the name and the error, or OPEN.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// System call numbers that both architectures share.
const (
	sysIOURingSetup = 425
	sysOpenTree     = 428
)

func main() {
	socket := func(family, kind, protocol int) func() error {
		return func() error {
			fd, err := syscall.Socket(family, kind, protocol)
			if err == nil {
				syscall.Close(fd)
			}
			return err
		}
	}
	for _, try := range []struct {
		name string
		do   func() error
	}{
		{"raw socket", socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)},
		{"packet socket", socket(syscall.AF_PACKET, syscall.SOCK_DGRAM, 0)},
		{"vsock socket", socket(40, syscall.SOCK_STREAM, 0)},
		{"alg socket", socket(38, syscall.SOCK_SEQPACKET, 0)},
		{"netfilter socket", socket(syscall.AF_NETLINK, syscall.SOCK_RAW, 12)},
		{"mknod", func() error { return syscall.Mknod("/tmp/null", syscall.S_IFCHR|0o666, 1<<8|3) }},
		{"mount", func() error { return syscall.Mount("none", "/mnt", "tmpfs", 0, "") }},
		{"bind mount", func() error { return syscall.Mount("/etc", "/mnt", "", syscall.MS_BIND, "") }},
		{"user namespace", userNamespace}, // unshare(2) refuses one to a threaded program anyway
		{"sethostname", func() error { return syscall.Sethostname([]byte("other")) }},
		{"io_uring", func() error { return raw(sysIOURingSetup, 4, uintptr(unsafe.Pointer(&[128]byte{}))) }},
		{"open_tree", func() error { return raw(sysOpenTree, 0, uintptr(unsafe.Pointer(&[]byte("/\x00")[0])), 1) }},
		{"write core_pattern", open("/proc/sys/kernel/core_pattern")},
		{"write sysrq-trigger", open("/proc/sysrq-trigger")},
		{"remount /proc/sys", func() error { return syscall.Mount("", "/proc/sys", "", syscall.MS_REMOUNT|syscall.MS_BIND, "") }},
		{"write relay folder", func() error { return create("/run/agentbox/relay/planted") }},
		{"write seed", func() error { return create("/run/agentbox/seed/00112233445566ff/objects/planted") }},
		{"remount relay folder", func() error {
			return syscall.Mount("", "/run/agentbox/relay", "", syscall.MS_REMOUNT|syscall.MS_BIND, "")
		}},
	} {
		result := "OPEN"
		if err := try.do(); err != nil {
			result = err.Error()
		}
		fmt.Printf("%s: %s\n", try.name, result)
	}
}

func userNamespace() error {
	child := exec.Command("/bin/true")
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	return child.Run()
}

func raw(number uintptr, args ...uintptr) error {
	var a [3]uintptr
	copy(a[:], args)
	if _, _, errno := syscall.Syscall(number, a[0], a[1], a[2]); errno != 0 {
		return errno
	}
	return nil
}

func open(path string) func() error {
	return func() error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		return err
	}
}

func create(path string) error {
	f, err := os.Create(path)
	if err == nil {
		f.Close()
	}
	return err
}

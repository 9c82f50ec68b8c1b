// Package derive makes the profiles of package seccomp out of the Docker
// project's list. Only tests and `go generate` use it.
package derive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/madarco/agentbox/sandbox-docker/seccomp"
)

// added lists the system calls that each profile opens beyond the one before,
// and netlink the protocols of its NETLINK sockets beyond the common ones.
var steps = []struct {
	name    seccomp.Name
	added   []string
	netlink []uint64
}{
	{name: seccomp.Default},
	{name: seccomp.Browser, added: []string{"clone", "unshare", "chroot"}},
	{name: seccomp.Sandbox, added: []string{"mount", "umount", "umount2", "pivot_root"}},
	{name: seccomp.NestedMin, added: []string{"setns", "sethostname"}, netlink: []uint64{unix.NETLINK_NETFILTER}},
}

// netlink are the protocols that ordinary programs speak: addresses and
// routes, ss, audit messages of sudo and PAM, udev, generic.
var netlink = []uint64{
	unix.NETLINK_ROUTE, unix.NETLINK_SOCK_DIAG, unix.NETLINK_AUDIT,
	unix.NETLINK_KOBJECT_UEVENT, unix.NETLINK_GENERIC,
}

// forbidden must not be reachable in any profile, whatever a later version of
// the list says.
var forbidden = []string{"socket", "socketcall", "io_uring_setup", "io_uring_enter", "io_uring_register"}

// Profile is the JSON text of the named profile.
func Profile(name seccomp.Name) ([]byte, error) {
	var added []string
	protocols := slices.Clone(netlink)
	for _, step := range steps {
		added = append(added, step.added...)
		protocols = append(protocols, step.netlink...)
		if step.name == name {
			return render(profile(added, protocols))
		}
	}
	return nil, fmt.Errorf("no seccomp profile is named %q", name)
}

func profile(added []string, protocols []uint64) *moby.Seccomp {
	p := moby.DefaultProfile()
	for _, rule := range p.Syscalls {
		if rule.Action == specs.ActAllow {
			rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return slices.Contains(forbidden, name) })
		}
		if conditional(rule) {
			// Rules of one call that differ only in arguments would narrow
			// what is added below.
			rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return slices.Contains(added, name) })
		}
	}
	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(rule *moby.Syscall) bool { return len(rule.Names) == 0 })
	p.Syscalls = append(p.Syscalls, sockets(protocols)...)
	if len(added) > 0 {
		p.Syscalls = append(p.Syscalls, &moby.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: added, Action: specs.ActAllow}})
	}
	return p
}

func conditional(rule *moby.Syscall) bool { return len(rule.Args) > 0 }

// sockets are the rules that let socket(2) make what a box may have.
func sockets(protocols []uint64) []*moby.Syscall {
	equals := func(index uint, value uint64) specs.LinuxSeccompArg {
		return specs.LinuxSeccompArg{Index: index, Value: value, Op: specs.OpEqualTo}
	}
	var rules []*moby.Syscall
	allow := func(args ...specs.LinuxSeccompArg) {
		rules = append(rules, &moby.Syscall{LinuxSyscall: specs.LinuxSyscall{
			Names: []string{"socket"}, Action: specs.ActAllow, Args: args,
		}})
	}
	for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		allow(equals(0, family))
	}
	for _, protocol := range protocols {
		allow(equals(0, unix.AF_NETLINK), equals(2, protocol))
	}
	return rules
}

func render(p *moby.Seccomp) ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode a seccomp profile: %w", err)
	}
	var line bytes.Buffer
	err = json.Compact(&line, text)
	return line.Bytes(), err
}

package seccomp_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/madarco/agentbox/sandbox-docker/seccomp"
	"github.com/madarco/agentbox/sandbox-docker/seccomp/derive"
)

var update = flag.Bool("update", false, "write the derived profiles")

func TestProfilesAreDerived(t *testing.T) {
	for _, name := range seccomp.Names {
		want, err := derive.Profile(name)
		if err != nil {
			t.Fatalf("derive %s: %v", name, err)
		}
		if *update {
			if err := os.WriteFile("profiles/"+string(name)+".json", want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := seccomp.JSON(name)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("profile %s is not what the generator makes; run go generate in this folder and read the difference", name)
		}
	}
}

// filter is a profile as the engine reads it.
type filter struct {
	DefaultAction   string
	DefaultErrnoRet int
	Syscalls        []rule
}

type rule struct {
	Names    []string
	Action   string
	Args     []arg
	Includes struct{ Caps, Arches []string }
	Excludes struct{ Caps, Arches []string }
}

type arg struct {
	Index, Value uint64
	Op           string
}

// sealedCaps are the capabilities that a box keeps: the engine's default set
// without NET_RAW and MKNOD.
var sealedCaps = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_AUDIT_WRITE", "CAP_SETFCAP",
}

func load(t *testing.T, name seccomp.Name) filter {
	t.Helper()
	text, err := seccomp.JSON(name)
	if err != nil {
		t.Fatal(err)
	}
	var f filter
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatalf("profile %s is no JSON: %v", name, err)
	}
	return f
}

// applies tells whether a rule is in force in a sealed box on amd64.
func (r rule) applies() bool {
	for _, c := range r.Includes.Caps {
		if !slices.Contains(sealedCaps, c) {
			return false
		}
	}
	for _, c := range r.Excludes.Caps {
		if slices.Contains(sealedCaps, c) {
			return false
		}
	}
	return (len(r.Includes.Arches) == 0 || slices.Contains(r.Includes.Arches, "amd64")) && !slices.Contains(r.Excludes.Arches, "amd64")
}

// allows tells whether a call with these arguments passes.
func (f filter) allows(call string, args ...uint64) bool {
	return slices.ContainsFunc(f.Syscalls, func(r rule) bool {
		if r.Action != "SCMP_ACT_ALLOW" || !slices.Contains(r.Names, call) || !r.applies() {
			return false
		}
		return !slices.ContainsFunc(r.Args, func(a arg) bool {
			value := uint64(0)
			if int(a.Index) < len(args) {
				value = args[a.Index]
			}
			switch a.Op {
			case "SCMP_CMP_EQ":
				return value != a.Value
			case "SCMP_CMP_MASKED_EQ":
				return value&a.Value != 0
			}
			return true
		})
	})
}

func TestWhatEachProfileOpens(t *testing.T) {
	const (
		newUser = 0x10000000
		inet    = 2
		netlink = 16
	)
	type call struct {
		name string
		args []uint64
	}
	// Each row names the first profile that opens the call; "" is none.
	for _, row := range []struct {
		call  call
		first seccomp.Name
	}{
		{call{"openat", nil}, seccomp.Default},
		{call{"ptrace", nil}, seccomp.Default},
		{call{"socket", []uint64{1}}, seccomp.Default},
		{call{"socket", []uint64{inet, 1}}, seccomp.Default},
		{call{"socket", []uint64{10, 1}}, seccomp.Default},
		{call{"socket", []uint64{netlink, 3, 0}}, seccomp.Default},
		{call{"socket", []uint64{netlink, 3, 9}}, seccomp.Default},
		{call{"chroot", nil}, seccomp.Default}, // with the capability that a box keeps
		{call{"clone", []uint64{0x11}}, seccomp.Default},
		{call{"clone", []uint64{newUser}}, seccomp.Browser},
		{call{"unshare", []uint64{newUser}}, seccomp.Browser},
		{call{"mount", nil}, seccomp.Sandbox},
		{call{"umount2", nil}, seccomp.Sandbox},
		{call{"pivot_root", nil}, seccomp.Sandbox},
		{call{"setns", nil}, seccomp.NestedMin},
		{call{"sethostname", nil}, seccomp.NestedMin},
		{call{"socket", []uint64{netlink, 3, 12}}, seccomp.NestedMin},

		{call{"socket", []uint64{17, 3}}, ""},         // AF_PACKET
		{call{"socket", []uint64{38, 5}}, ""},         // AF_ALG
		{call{"socket", []uint64{40, 1}}, ""},         // AF_VSOCK
		{call{"socket", []uint64{44, 3}}, ""},         // AF_XDP
		{call{"socket", []uint64{netlink, 3, 6}}, ""}, // NETLINK_XFRM
		{call{"socketcall", nil}, ""},
		{call{"io_uring_setup", nil}, ""},
		{call{"io_uring_enter", nil}, ""},
		{call{"bpf", nil}, ""},
		{call{"perf_event_open", nil}, ""},
		{call{"keyctl", nil}, ""},
		{call{"add_key", nil}, ""},
		{call{"userfaultfd", nil}, ""},
		{call{"init_module", nil}, ""},
		{call{"kexec_load", nil}, ""},
		{call{"open_by_handle_at", nil}, ""},
		{call{"fsopen", nil}, ""},
		{call{"move_mount", nil}, ""},
		{call{"clone3", nil}, ""}, // answered "not implemented", so that clone is used
	} {
		open := false
		for _, name := range seccomp.Names {
			open = open || name == row.first
			if got := load(t, name).allows(row.call.name, row.call.args...); got != open {
				t.Errorf("profile %s: %s%v allowed is %t, want %t", name, row.call.name, row.call.args, got, open)
			}
		}
	}
}

func TestProfilesRefuseByDefault(t *testing.T) {
	for _, name := range seccomp.Names {
		if f := load(t, name); f.DefaultAction != "SCMP_ACT_ERRNO" || f.DefaultErrnoRet != 1 {
			t.Errorf("profile %s answers unknown calls with %s %d, want EPERM", name, f.DefaultAction, f.DefaultErrnoRet)
		}
		text, err := seccomp.JSON(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny([]byte(text), "\n\r") {
			t.Errorf("profile %s is not one line", name)
		}
	}
	if _, err := seccomp.JSON("unconfined"); err == nil {
		t.Error("an unknown profile has text")
	}
}

package gitgate

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// noExecution turns off, in repositories that are not ours, what would run a
// program or start a daemon on a mere look.
var noExecution = []string{
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.alternateRefsCommand=true",
	"safe.bareRepository=explicit",
	"gc.auto=0",
	"maintenance.auto=false",
}

// sealed is the whole environment of git in a repository of ours: no
// configuration but the repository's own, which only we write.
var sealed = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin",
	"HOME=/nonexistent",
	"LC_ALL=C",
	"GIT_CONFIG_NOSYSTEM=1",
	"GIT_CONFIG_GLOBAL=/dev/null",
	"GIT_ATTR_NOSYSTEM=1",
	"GIT_TERMINAL_PROMPT=0",
	"GIT_NO_LAZY_FETCH=1",
	"GIT_OPTIONAL_LOCKS=0",
	"GIT_NO_REPLACE_OBJECTS=1",
	"GIT_ALLOW_PROTOCOL=none",
}

// account is a user of this machine, whose repository git reads as that user.
type account struct {
	uid  uint32
	home string
	// as is nil when it is us.
	as *syscall.Credential
}

func ourselves() account {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/nonexistent"
	}
	return account{uid: uint32(os.Geteuid()), home: home} //nolint:gosec // an effective uid is never negative on Unix
}

// accountOf is the owner of a file; ok is false when we can't act as them.
func accountOf(st os.FileInfo) (account, bool) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return account{}, false
	}
	us := ourselves()
	if sys.Uid == us.uid {
		return us, true
	}
	if us.uid != 0 {
		return account{uid: sys.Uid}, false
	}
	acc := account{uid: sys.Uid, home: "/nonexistent", as: &syscall.Credential{Uid: sys.Uid, Gid: sys.Gid}}
	if u, err := user.LookupId(strconv.FormatUint(uint64(sys.Uid), 10)); err == nil {
		acc.home = u.HomeDir
		if gid, err := strconv.ParseUint(u.Gid, 10, 32); err == nil {
			acc.as.Gid = uint32(gid)
		}
	}
	return acc, true
}

// inherited are the variables of ours that a user's git may need to reach a
// remote, beside those that start with XDG_.
var inherited = []string{
	"PATH", "LANG", "TMPDIR", "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME",
	"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
}

// environment is what git gets when it works in the account's own repository:
// their configuration, and never a terminal, a lazy fetch or a written index.
// History is what its objects say: grafts and replacements are the user's own
// view, and packs made by it would have holes.
func (a account) environment() []string {
	env := []string{
		"HOME=" + a.home, "LC_ALL=C",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_LITERAL_PATHSPECS=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE=/nonexistent/grafts",
	}
	if a.as != nil {
		return append(env, "PATH=/usr/local/bin:/usr/bin:/bin")
	}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(inherited, name) || strings.HasPrefix(name, "XDG_") {
			env = append(env, v)
		}
	}
	return env
}

// within tells whether path is dir or lies below it; both are real paths.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

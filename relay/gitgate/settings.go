package gitgate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
)

// remoteSettings is what the user's configuration says about reaching the
// remote: read once for a push, and by one process.
type remoteSettings struct {
	// here are all settings in the user's repository, in git's order.
	here [][2]string
	// passed are those that go along to the remote.
	passed [][2]string
	owner  account
	read   time.Time
}

// all are the values of a key, as `git config --get-all` gives them.
func (s *remoteSettings) all(key string) []string {
	var values []string
	for _, kv := range s.here {
		if kv[0] == key {
			values = append(values, kv[1])
		}
	}
	return values
}

// freshFor is how long settings count as just read. A push that goes at once
// reads them once; one that has waited for an answer reads them anew.
const freshFor = 5 * time.Second

// handover passes settings on from one step of a push to the next, once.
type handover struct {
	mu sync.Mutex
	s  *remoteSettings
}

func (h *handover) put(s *remoteSettings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.s = s
}

// or reads where nothing fresh was handed over.
func (h *handover) or(read func() (*remoteSettings, error)) (*remoteSettings, error) {
	h.mu.Lock()
	s := h.s
	h.s = nil
	h.mu.Unlock()
	if s != nil && time.Since(s.read) < freshFor {
		return s, nil
	}
	return read()
}

// prefetch reads, beside what the caller does, what a push will need. The
// caller ends by calling wait.
func (g *gate) prefetch(ctx context.Context, updates []policy.RefUpdate) (wait func()) {
	for _, u := range updates {
		if isLanding(u.Ref) || g.repo.Remote == "" {
			return func() {}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s, err := g.settings(ctx); err == nil { // else who needs them hears of it
			g.imported.put(s)
		}
	}()
	return func() { <-done }
}

// settings reads what the user's git would go by. What is passed comes from the
// user's repository when it is ours to trust, so that its includes and
// per-folder settings count; when we act for another account, only from our own
// configuration.
func (g *gate) settings(ctx context.Context) (*remoteSettings, error) {
	user, err := g.user()
	if err != nil {
		return nil, err
	}
	s := &remoteSettings{owner: user.owner, read: time.Now()}
	list := g.h.theirs(user, "config", "--includes", "-z", "--list")
	if s.here, err = g.list(ctx, list); err != nil {
		return nil, err
	}
	ours := s.here
	if user.owner.as != nil {
		s.owner = ourselves()
		if ours, err = g.list(ctx, command{args: list.args, env: s.owner.environment(), deadline: quick}); err != nil {
			return nil, err
		}
	}
	s.passed = g.passedOf(ours)
	return s, nil
}

func (g *gate) list(ctx context.Context, cmd command) (all [][2]string, err error) {
	out, err := g.h.run.run(ctx, cmd)
	for key, value := range pairs(out) {
		all = append(all, [2]string{key, value})
	}
	return all, err
}

func (g *gate) passedOf(all [][2]string) (settings [][2]string) {
	if os.Getenv("GIT_SSH") == "" {
		// There is nobody at a terminal; a setting of the user's replaces it.
		settings = append(settings, [2]string{"core.sshCommand", "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=30 -o ServerAliveCountMax=4"})
	}
	// A remote that says nothing at all for minutes is taken for dead; git sends
	// something every few seconds while it works.
	settings = append(settings, [2]string{"http.lowSpeedLimit", "1"}, [2]string{"http.lowSpeedTime", "300"})
	for _, kv := range all {
		if proxy, ok := between(kv[0], "remote."+string(g.repo.Remote)+".", ""); ok && strings.HasPrefix(proxy, "proxy") {
			settings = append(settings, [2]string{"remote." + remoteName + "." + proxy, kv[1]})
		} else if passed(kv[0]) {
			settings = append(settings, kv)
		}
	}
	return settings
}

// passed are the user's settings that reach a remote on their behalf; per-URL
// variants of credential and http are among them. No other setting of theirs
// counts: the gate is not their repository.
func passed(key string) bool {
	switch {
	case strings.HasPrefix(key, "credential."), strings.HasPrefix(key, "http."), strings.HasPrefix(key, "protocol."):
		return true
	case key == "core.sshcommand", key == "core.askpass", key == "core.gitproxy", key == "ssh.variant":
		return true
	}
	return false
}

// RemoteURL implements relay.Gate. User information is left out.
func (g *gate) RemoteURL(ctx context.Context) (string, error) {
	s, err := g.imported.or(func() (*remoteSettings, error) { return g.settings(ctx) })
	if err != nil {
		return "", err
	}
	g.decided.put(s)
	address, err := g.remoteAddress(s, true)
	return stripUser(address), err
}

// remoteAddress is where the user's own git would push to, or fetch from.
func (g *gate) remoteAddress(s *remoteSettings, push bool) (string, error) {
	if g.repo.Remote == "" {
		return "", relay.ErrNoRemote
	}
	address := s.address(string(g.repo.Remote), push)
	if address == "" {
		return "", rejected("the user's repository has no remote %s any more", g.repo.Remote)
	}
	if isRelative(address) {
		return filepath.Join(g.repo.WorkTree, address), nil
	}
	return address, nil
}

// address is what `git remote get-url [--push]` tells (git-config(1), under
// remote.<name>.pushurl and url.<base>.pushInsteadOf), empty for no such remote.
func (s *remoteSettings) address(remote string, push bool) string {
	if pushURLs := s.all("remote." + remote + ".pushurl"); push && len(pushURLs) > 0 {
		address, _ := s.rewrite(pushURLs[0], ".insteadof")
		return address
	}
	urls := s.all("remote." + remote + ".url")
	if len(urls) == 0 {
		return ""
	}
	if push {
		for _, u := range urls {
			if address, ok := s.rewrite(u, ".pushinsteadof"); ok {
				return address
			}
		}
	}
	address, _ := s.rewrite(urls[0], ".insteadof")
	return address
}

// rewrite applies the rule with the longest prefix that fits.
func (s *remoteSettings) rewrite(address, kind string) (string, bool) {
	base, prefix := "", ""
	for _, kv := range s.here {
		to, ok := between(kv[0], "url.", kind)
		if ok && strings.HasPrefix(address, kv[1]) && len(kv[1]) > len(prefix) {
			base, prefix = to, kv[1]
		}
	}
	return base + strings.TrimPrefix(address, prefix), prefix != ""
}

// remoteName is what the remote is called in the environment of one command.
// Its address stands in the environment too: it may hold a secret.
const remoteName = "agentbox"

// onRemote is a command in a repository of ours that talks to the remote with
// the user's own settings.
func (g *gate) onRemote(s *remoteSettings, dir, address string, args ...string) command {
	settings := append(s.passed[:len(s.passed):len(s.passed)], [2]string{"remote." + remoteName + ".url", address})
	cmd := g.h.ours(dir, args...)
	cmd.env = append(s.owner.environment(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1")
	cmd.env = append(cmd.env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, kv := range settings {
		cmd.env = append(cmd.env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	cmd.deadline = network
	return cmd
}

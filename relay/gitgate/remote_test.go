package gitgate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/relay/pktline"
)

func (w *world) push(updates ...policy.RefUpdate) (relay.PushResult, error) {
	w.t.Helper()
	return w.gate.Push(w.t.Context(), relay.PushRequest{URL: w.record.RemoteURL, Updates: updates}, func(int) error { return nil })
}

func TestPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	one := w.box.commit("one", "1\n")
	w.box.git("commit", "-q", "--amend", "-m", "better")
	amended := w.box.id("HEAD")
	w.box.git("tag", "-a", "v1", "-m", "first")
	tag := w.box.id("v1")
	for _, tip := range []core.ObjectID{one, amended, tag} {
		check(t, w.importTip(w.pack(w.box, tip, base), tip))
	}
	own, main := ownBranch.Ref(), "refs/heads/main"
	for _, c := range []struct {
		name   string
		u      policy.RefUpdate
		status byte
		now    core.ObjectID
	}{
		{"new", policy.RefUpdate{Ref: own, New: one}, '*', one},
		{"again", policy.RefUpdate{Ref: own, Old: one, New: one}, '=', one},
		{"rewrite under the right lease", policy.RefUpdate{Ref: own, Old: one, New: amended}, '+', amended},
		{"rewrite under a stale lease", policy.RefUpdate{Ref: own, Old: base, New: one}, '!', amended},
		{"create what exists", policy.RefUpdate{Ref: own, New: one}, '!', amended},
		{"forward main", policy.RefUpdate{Ref: main, Old: base, New: amended}, ' ', amended},
		{"tag", policy.RefUpdate{Ref: "refs/tags/v1", Old: core.ZeroID(40), New: tag}, '*', tag},
	} {
		result, err := w.push(c.u)
		if err != nil || len(result.Refs) != 1 || result.Refs[0].Ref != c.u.Ref || result.Refs[0].Status != c.status {
			t.Errorf("%s: %+v, %v", c.name, result, err)
		}
		if got := w.remote.ref(c.u.Ref); got != c.now {
			t.Errorf("%s: the remote has %s, want %s", c.name, got.Short(), c.now.Short())
		}
	}
	w.host.Settle()
	if got := w.user.ref("refs/remotes/origin/main"); got != amended {
		t.Errorf("the user's tracking branch is %s", got)
	}
	if got := w.user.ref("refs/remotes/origin/agentbox/one"); got != amended {
		t.Errorf("the user's tracking branch of the box is %s", got)
	}
	if got := w.user.ref("refs/heads/main"); got != base {
		t.Errorf("the user's own branch moved to %s", got)
	}
	if got := w.seed().ref("refs/seed/remotes/origin/heads/main"); got != amended {
		t.Errorf("the seed's main is %s", got)
	}
	if !w.seed().has(base) || !strings.Contains(w.seed().git("for-each-ref", "refs/seed/keep"), string(base)) {
		t.Error("the seed does not keep what main was")
	}
	w.user.git("fsck", "--strict")
}

func TestPushIsWrittenDownFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tip := w.box.commit("one", "1\n")
	check(t, w.importTip(w.pack(w.box, tip, w.record.BaseOID), tip))
	req := relay.PushRequest{URL: w.record.RemoteURL, Updates: []policy.RefUpdate{{Ref: ownBranch.Ref(), New: tip}}}
	full := errors.New("disk full")
	_, err := w.gate.Push(t.Context(), req, func(int) error { return full })
	if !errors.Is(err, full) || w.remote.ref(ownBranch.Ref()) != "" {
		t.Errorf("got %v; the remote has %q", err, w.remote.ref(ownBranch.Ref()))
	}
	_, err = w.gate.Push(t.Context(), req, func(pid int) error {
		if got := w.remote.ref(ownBranch.Ref()); got != "" {
			t.Error("something was sent before it was written down")
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		check(t, err)
		if !bytes.Contains(line, []byte("read -r")) {
			t.Errorf("the child is %q already", line)
		}
		return nil
	})
	if err != nil || w.remote.ref(ownBranch.Ref()) != tip {
		t.Errorf("got %v", err)
	}
}

func TestPushGoesWhereItWasDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tip := w.box.commit("one", "1\n")
	check(t, w.importTip(w.pack(w.box, tip, w.record.BaseOID), tip))
	elsewhere := repo{t, filepath.Join(t.TempDir(), "elsewhere.git")}
	repo{t, "/"}.git("init", "-q", "--bare", elsewhere.dir)
	w.user.git("remote", "set-url", "origin", elsewhere.dir)
	if _, err := w.push(policy.RefUpdate{Ref: ownBranch.Ref(), New: tip}); !errors.Is(err, relay.ErrRejected) {
		t.Errorf("got %v", err)
	}
	now, err := w.gate.RemoteURL(t.Context())
	if err != nil || now != elsewhere.dir {
		t.Errorf("RemoteURL: %s, %v", now, err)
	}
	w.user.git("remote", "set-url", "origin", filepath.Join(t.TempDir(), "nothing"))
	url, err := w.gate.RemoteURL(t.Context())
	check(t, err)
	_, err = w.gate.Push(t.Context(), relay.PushRequest{URL: url, Updates: []policy.RefUpdate{{Ref: ownBranch.Ref(), New: tip}}}, func(int) error { return nil })
	if !errors.Is(err, relay.ErrRemote) {
		t.Errorf("a remote that is not there: %v", err)
	}
	w.user.git("remote", "remove", "origin")
	w.record.Remote = ""
	gate, err := w.host.Gate(t.Context(), w.rec, w.record)
	check(t, err)
	if _, err := gate.RemoteURL(t.Context()); !errors.Is(err, relay.ErrNoRemote) {
		t.Errorf("without a remote: %v", err)
	}
}

func TestAtomicPushTakesAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tip := w.box.commit("one", "1\n")
	check(t, w.importTip(w.pack(w.box, tip, w.record.BaseOID), tip))
	result, err := w.gate.Push(t.Context(), relay.PushRequest{URL: w.record.RemoteURL, Atomic: true, Updates: []policy.RefUpdate{
		{Ref: ownBranch.Ref(), New: tip}, {Ref: "refs/heads/main", New: tip},
	}}, func(int) error { return nil })
	if err != nil || len(result.Refs) != 2 || result.Refs[0].Status != '!' || result.Refs[1].Status != '!' || w.remote.ref(ownBranch.Ref()) != "" {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestUsersSettingsReachTheRemoteAlone: credentials resolved in the user's
// repository work, and none of them stands in an argument.
func TestUsersSettingsReachTheRemoteAlone(t *testing.T) {
	t.Parallel()
	git, log := recorder(t)
	w := newWorld(t, func(w *world) { w.open(gitgate.Options{Git: git}) })
	ssh := filepath.Join(t.TempDir(), "ssh")
	const script = "#!/bin/sh\nshift $(($#-1))\nexec sh -c \"$1\"\n"
	check(t, os.WriteFile(ssh, []byte(script), 0o755)) //nolint:gosec // a program
	included := filepath.Join(t.TempDir(), "included")
	check(t, os.WriteFile(included, fmt.Appendf(nil, "[core]\n\tsshCommand = %s\n[http]\n\textraHeader = Authorization: s3cret\n", ssh), 0o600))
	w.user.git("config", "includeIf.gitdir:"+w.user.dir+"/.path", included)
	w.user.git("config", "ssh.variant", "simple")
	w.user.git("remote", "set-url", "origin", "git@example.invalid:"+w.remote.dir)
	tip := w.box.commit("one", "1\n")
	check(t, w.importTip(w.pack(w.box, tip, w.record.BaseOID), tip))
	url, err := w.gate.RemoteURL(t.Context())
	check(t, err)
	result, err := w.gate.Push(t.Context(), relay.PushRequest{URL: url, Updates: []policy.RefUpdate{{Ref: ownBranch.Ref(), New: tip}}}, func(int) error { return nil })
	if err != nil || w.remote.ref(ownBranch.Ref()) != tip {
		t.Errorf("%+v, %v", result, err)
	}
	check(t, w.gate.Refresh(t.Context()))
	argv, err := os.ReadFile(log)
	check(t, err)
	if bytes.Contains(argv, []byte("s3cret")) {
		t.Error("a secret of the user is an argument")
	}
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	other := w.clone("colleague")
	other.git("remote", "set-url", "origin", w.remote.dir)
	forward := other.commit("by a colleague", "x\n")
	other.git("push", "-q", "origin", "HEAD:main", "HEAD:gone", "HEAD:agentbox/two", "HEAD:"+string(ownBranch))
	other.git("tag", "-a", "v2", "-m", "v2")
	other.git("push", "-q", "origin", "v2")
	local := w.user.commit("not pushed", "y\n")
	refs := func() map[string]core.ObjectID {
		t.Helper()
		check(t, w.gate.Refresh(t.Context()))
		got, err := w.gate.Refs(t.Context(), false)
		check(t, err)
		if got.Head != "refs/heads/main" {
			t.Errorf("HEAD is %q", got.Head)
		}
		out := map[string]core.ObjectID{}
		for _, r := range got.List {
			out[r.Name] = r.OID
		}
		return out
	}
	want := map[string]core.ObjectID{
		"refs/heads/main": forward, "refs/heads/gone": forward, ownBranch.Ref(): forward, "refs/tags/v2": other.id("v2"), wire.HostPrefix + "main": local,
	}
	if diff := cmp.Diff(want, refs()); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	other.git("reset", "-q", "--hard", string(base))
	rewritten := other.commit("another way", "z\n")
	other.git("push", "-q", "--force", "origin", "HEAD:main", ":gone", ":"+string(ownBranch))
	want = map[string]core.ObjectID{"refs/heads/main": rewritten, "refs/tags/v2": other.id("v2"), wire.HostPrefix + "main": local}
	if diff := cmp.Diff(want, refs()); diff != "" {
		t.Errorf("after a rewrite (-want +got):\n%s", diff)
	}
	w.seed().git("gc", "-q", "--prune=now")
	if !w.seed().has(forward) {
		t.Error("the seed lost what a box may stand on")
	}
	if w.seed().has(local) || !w.gateRepo().has(local) {
		t.Error("the user's unpushed commit is not where it belongs")
	}
	// The user's older view does not take the seed back.
	opened, err := w.host.Open(t.Context(), w.user.dir)
	check(t, err)
	check(t, w.host.RefreshSeed(t.Context(), opened))
	if diff := cmp.Diff(want, refs()); diff != "" {
		t.Errorf("after a create (-want +got):\n%s", diff)
	}
}

func TestRefreshSaysWhatTheRemoteSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	check(t, os.Rename(w.remote.dir, w.remote.dir+".away"))
	if err := w.gate.Refresh(t.Context()); !errors.Is(err, relay.ErrRemote) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.gate.Refresh(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestNoSecretOfTheUsersIsInAnError: a box reads what git says of the remote.
func TestNoSecretOfTheUsersIsInAnError(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	_, host, _ := strings.Cut(server.URL, "://")
	for name, user := range map[string]string{
		"token as user": secret, "password": "ada:" + secret, "no valid escape": "ada:%zz" + secret, "with a slash": "ada:x/" + secret, "with an at": "ada:x@" + secret,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.user.git("remote", "set-url", "origin", "http://"+user+"@"+host+"/x.git") })
			if strings.Contains(w.record.RemoteURL, secret) {
				t.Errorf("the record holds %q", w.record.RemoteURL)
			}
			err := w.gate.Refresh(t.Context())
			if !errors.Is(err, relay.ErrRemote) || strings.Contains(err.Error(), secret) {
				t.Errorf("fetch: %v", err)
			}
			result, err := w.push(policy.RefUpdate{Ref: ownBranch.Ref(), New: w.record.BaseOID})
			if !errors.Is(err, relay.ErrRemote) || strings.Contains(err.Error()+string(result.Output), secret) {
				t.Errorf("push: %v, %q", err, result.Output)
			}
		})
	}
}

// TestManyRefreshesAtOnce also runs under the race detector.
func TestManyRefreshesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user.git("push", "-q", "origin", "HEAD:more")
	var all sync.WaitGroup
	for i := range 6 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all.Go(func() {
			if i%3 == 0 {
				cancel()
			}
			if err := w.gate.Refresh(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	check(t, w.gate.Refresh(t.Context()))
	if w.seed().ref("refs/seed/remotes/origin/heads/more") == "" {
		t.Error("the new branch is not in the seed")
	}
}

// fetchBody asks for one object in protocol version 2, or 0.
func fetchBody(version string, id core.ObjectID) *bytes.Buffer {
	var body bytes.Buffer
	out := pktline.NewWriter(&body)
	if version == "version=2" {
		_ = out.Printf("command=fetch")
		_ = out.Delim()
		_ = out.Printf("want %s\n", id)
		_ = out.Printf("done\n")
		_ = out.Flush()
		return &body
	}
	_ = out.Printf("want %s side-band-64k ofs-delta\n", id)
	_ = out.Flush()
	_ = out.Printf("done\n")
	return &body
}

// heard is a body that says when it is read from, and then ends with its pipe.
type heard struct {
	*io.PipeReader
	read chan<- struct{}
	once *sync.Once
}

func (h heard) Read(p []byte) (int, error) {
	h.once.Do(func() { h.read <- struct{}{} })
	return h.PipeReader.Read(p)
}

// TestFetchesOfABoxAreBounded: a box that asks and never ends its question
// takes a few processes of the host, not one for each request.
func TestFetchesOfABoxAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const most = 4
	read := make(chan struct{}, most)
	var all sync.WaitGroup
	var ends []*io.PipeWriter
	for range most {
		from, to := io.Pipe()
		ends = append(ends, to)
		all.Go(func() {
			_ = w.gate.Serve(t.Context(), "version=2", heard{from, read, new(sync.Once)}, io.Discard)
		})
	}
	for range most {
		<-read
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.gate.Serve(ctx, "version=2", strings.NewReader(""), io.Discard); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "other transfers") {
		t.Errorf("one more: %v", err)
	}
	for _, to := range ends {
		_ = to.Close()
	}
	all.Wait()
	var out bytes.Buffer
	if err := w.gate.Serve(t.Context(), "", fetchBody("", w.record.BaseOID), &out); err != nil || !bytes.Contains(out.Bytes(), []byte("PACK")) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user.git("checkout", "-q", "-b", "private")
	private := w.user.commit("private", "private\n")
	for _, version := range []string{"", "version=1", "version=2"} {
		var out bytes.Buffer
		err := w.gate.Serve(t.Context(), version, fetchBody(version, w.record.BaseOID), &out)
		if err != nil || !bytes.Contains(out.Bytes(), []byte("PACK")) {
			t.Errorf("%q: %v, %q", version, err, out.String())
		}
		out.Reset()
		err = w.gate.Serve(t.Context(), version, fetchBody(version, private), &out)
		if bytes.Contains(out.Bytes(), []byte("PACK")) || (err == nil && !bytes.Contains(out.Bytes(), []byte("ERR"))) {
			t.Errorf("%q, a private commit: %v, %q", version, err, out.String())
		}
	}
	if err := w.gate.Serve(t.Context(), "version=2\nx", strings.NewReader("junk"), new(bytes.Buffer)); err == nil {
		t.Error("junk is served")
	}
}

package gitgate_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/relay/packscan"
	"github.com/madarco/agentbox/relay/treecheck"
)

func raw(id core.ObjectID) string {
	var out bytes.Buffer
	for i := 0; i < len(id); i += 2 {
		var b byte
		_, _ = fmt.Sscanf(string(id[i:i+2]), "%02x", &b)
		out.WriteByte(b)
	}
	return out.String()
}

// entry is one entry of a raw tree.
func entry(mode, name string, id core.ObjectID) string { return mode + " " + name + "\x00" + raw(id) }

// TestImportRefuses is what a box may send and what must come of it: nothing.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user.git("checkout", "-q", "-b", "private")
	private := w.user.commit("private", "private\n")
	check(t, os.WriteFile(filepath.Join(w.user.dir, "README"), []byte("stashed\n"), 0o600))
	w.user.git("stash", "-q")
	stash := w.user.id("refs/stash")
	w.user.git("checkout", "-q", "main")
	otherBox, otherRecord, otherGate := w.newBox("b00000002", "agentbox/two")
	two := w.box.commit("of the other box", "2\n")
	check(t, w.take(otherGate, w.pack(w.box, two, w.record.BaseOID), policy.RefUpdate{Ref: "refs/heads/x", New: two}))
	if !(repo{t, w.home.Gate(otherBox.ID, otherRecord.Key)}).has(two) {
		t.Fatal("the other box's commit is not in its gate")
	}
	blob := core.ObjectID(w.box.feed("text", "hash-object", "-w", "--stdin"))
	good := w.box.commit("good", "good\n")
	onPrivate := core.ObjectID(w.box.feed(
		fmt.Sprintf("tree %s\nparent %s\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx", w.box.id("HEAD^{tree}"), private),
		"hash-object", "-t", "commit", "-w", "--stdin",
	))
	whole := w.pack(w.box, good, w.record.BaseOID)
	text, err := os.ReadFile(whole)
	check(t, err)
	flipped := bytes.Clone(text)
	flipped[len(flipped)/2] ^= 0x40
	cases := map[string]struct {
		pack string
		tip  core.ObjectID
	}{
		"another box's commit by hash":    {"", two},
		"a private commit by hash":        {"", private},
		"the stash by hash":               {"", stash},
		"a private commit, pack of other": {whole, private},
		"a commit on a private one":       {w.packOf(w.box, onPrivate), onPrivate},
		"a commit without its tree":       {w.packOf(w.box, good), good},
		"a truncated pack":                {w.spool(string(text[:len(text)-30])), good},
		"a bit flip":                      {w.spool(string(flipped)), good},
		"a blob for a commit":             {w.packOf(w.box, blob), blob},
	}
	for name, tree := range map[string]string{
		".git":                  entry("100644", ".git", blob),
		".GIT":                  entry("100644", ".GIT", blob),
		".git for HFS":          entry("100644", ".g\u200cit", blob),
		".git for NTFS":         entry("100644", "git~1", blob),
		"dot dot":               entry("100644", "..", blob),
		"slash":                 entry("100644", "a/b", blob),
		"duplicate":             entry("100644", "a", blob) + entry("100644", "a", blob),
		"unsorted":              entry("100644", "b", blob) + entry("100644", "a", blob),
		".gitmodules is a link": entry("120000", ".gitmodules", blob),
	} {
		tip := w.box.tree(tree)
		cases["tree with "+name] = struct {
			pack string
			tip  core.ObjectID
		}{w.packOf(w.box, tip, w.box.id(string(tip)+"^{tree}"), blob), tip}
	}
	before := manifest(t, w.user.dir)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := w.importTip(c.pack, c.tip)
			if !errors.Is(err, relay.ErrRejected) {
				t.Fatalf("got %v", err)
			}
			if refs := w.gateRepo().git("for-each-ref", "--format=%(refname) %(objectname)", "refs/box"); strings.Contains(refs, string(c.tip)) {
				t.Errorf("the gate holds it: %s", refs)
			}
			if _, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: c.tip}); err == nil {
				t.Error("what was refused lands")
			}
		})
	}
	if diff := cmp.Diff(before, manifest(t, w.user.dir)); diff != "" {
		t.Errorf("the user's repository changed:\n%s", diff)
	}
	check(t, w.importTip(whole, good)) // the gate still works
}

func TestImportKeepsBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.open(gitgate.Options{
			Pack: packscan.Limits{Objects: 50, ObjectBytes: 1 << 20, InflatedBytes: 4 << 20, PackBytes: 1 << 20, Ratio: 200, DeltaDepth: 50},
			Tree: treecheck.Limits{Paths: 20, PathBytes: 100, Depth: 10, TreePaths: 1000, Findings: 10},
		})
	})
	base := w.record.BaseOID
	reset := func() { w.box.git("reset", "-q", "--hard", string(base)) }
	tips := map[string]core.ObjectID{}
	tips["bytes in one object"] = w.box.commit("zeros", strings.Repeat("\x00", 2<<20))
	reset()
	for i := range 40 {
		check(t, os.WriteFile(filepath.Join(w.box.dir, fmt.Sprintf("f%d", i)), fmt.Append(nil, i), 0o600))
	}
	tips["changed paths"] = w.box.commit("last", "")
	reset()
	tips["folders in a path"] = w.box.commit(strings.Repeat("d/", 12)+"f", "x")
	reset()
	tips["bytes in a path"] = w.box.commit(strings.Repeat("n", 101), "x")
	reset()
	for i := range 60 {
		check(t, os.WriteFile(filepath.Join(w.box.dir, "many"), fmt.Append(nil, i), 0o600))
		w.box.git("add", "many")
		w.box.git("commit", "-q", "-m", "m")
	}
	tips["objects"] = w.box.id("HEAD")
	for bound, tip := range tips {
		err := w.importTip(w.pack(w.box, tip, base), tip)
		if !errors.Is(err, relay.ErrRejected) || !strings.Contains(err.Error(), bound) {
			t.Errorf("%s: got %v", bound, err)
		}
	}
}

// TestADeepTreeHarmsNobody: git's own recursion runs out of stack on it.
func TestADeepTreeHarmsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	blob := core.ObjectID(w.box.feed("text", "hash-object", "-w", "--stdin"))
	// One fast-import stream makes the whole chain.
	var b strings.Builder
	b.WriteString("commit refs/heads/deep\ncommitter a <a@b> 1 +0000\ndata 0\n")
	fmt.Fprintf(&b, "M 100644 %s %sf\n", blob, strings.Repeat("d/", 5000))
	w.box.feed(b.String(), "fast-import", "--quiet")
	deep := w.box.id("deep")
	before := manifest(t, w.user.dir)
	if err := w.importTip(w.pack(w.box, deep, w.record.BaseOID), deep); !errors.Is(err, relay.ErrRejected) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, manifest(t, w.user.dir)); diff != "" {
		t.Errorf("the user's repository changed:\n%s", diff)
	}
}

// recorder is a git program that writes its arguments down, NUL after each,
// and then is git.
func recorder(t testing.TB) (git, log string) {
	t.Helper()
	real, err := exec.LookPath("git")
	check(t, err)
	dir := t.TempDir()
	git, log = filepath.Join(dir, "git"), filepath.Join(dir, "argv")
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\0' \"$@\" >>'%s'\nexec '%s' \"$@\"\n", log, real)
	check(t, os.WriteFile(git, []byte(script), 0o755)) //nolint:gosec // a program
	return git, log
}

// TestNoByteOfABoxStartsAnArgument drives every operation with text of the box's
// own in each place that a box can choose.
func TestNoByteOfABoxStartsAnArgument(t *testing.T) {
	t.Parallel()
	git, log := recorder(t)
	w := newWorld(t, func(w *world) { w.open(gitgate.Options{Git: git}) })
	const mark = "--upload-pack=touch"
	check(t, os.MkdirAll(filepath.Join(w.box.dir, mark), 0o755))
	check(t, os.Symlink(mark, filepath.Join(w.box.dir, mark, "-link"+mark)))
	check(t, os.WriteFile(filepath.Join(w.box.dir, ".gitmodules"), []byte(mark), 0o600))
	check(t, os.WriteFile(filepath.Join(w.box.dir, mark, "HEAD"), []byte(mark), 0o600))
	w.box.git("add", "-A")
	w.box.git("-c", "user.name="+mark, "commit", "-q", "-m", mark)
	tip := w.box.id("HEAD")
	ctx := t.Context()
	pack := w.pack(w.box, tip, w.record.BaseOID)
	for _, ref := range []string{"refs/heads/" + mark, mark, "--receive-pack=x", "refs/heads/" + string(ownBranch)} {
		check(t, w.take(w.gate, pack, policy.RefUpdate{Ref: ref, New: tip}))
		u := policy.RefUpdate{Ref: ref, New: tip}
		if _, err := w.gate.Facts(ctx, u); err != nil {
			t.Error(err)
		}
		_, err := w.gate.Push(ctx, relay.PushRequest{URL: w.record.RemoteURL, Updates: []policy.RefUpdate{u}}, func(int) error { return nil })
		if good := ref == ownBranch.Ref(); good != (err == nil) {
			t.Errorf("push of %q: %v", ref, err)
		}
	}
	bad := policy.RefUpdate{Ref: ownBranch.Ref(), Old: core.ObjectID("x" + mark), New: tip}
	if _, err := w.gate.Push(ctx, relay.PushRequest{URL: w.record.RemoteURL, Updates: []policy.RefUpdate{bad}}, nil); !errors.Is(err, relay.ErrRejected) {
		t.Errorf("an old value that is no id: %v", err)
	}
	if _, err := w.gate.Land(ctx, relay.LandRequest{Branch: ownBranch, Tip: tip}); err != nil {
		t.Error(err)
	}
	check(t, w.gate.Refresh(ctx))
	argv, err := os.ReadFile(log)
	check(t, err)
	if len(argv) == 0 {
		t.Fatal("nothing was recorded")
	}
	if bytes.Contains(argv, []byte("upload-pack=")) || bytes.Contains(argv, []byte("receive-pack=")) {
		t.Errorf("text of the box is an argument:\n%q", argv)
	}
}

// TestPlantedProgramsDoNotRun puts a program in every place where git looks for
// one: in the box, where the host must not look, and in the hooks of the user's
// repository, which an act of a box must not trigger.
func TestPlantedProgramsDoNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	marker := filepath.Join(t.TempDir(), "ran")
	program := filepath.Join(t.TempDir(), "program")
	check(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch '"+marker+"'\ncat\n"), 0o755)) //nolint:gosec // a program
	box := func(config ...string) {
		for i := 0; i < len(config); i += 2 {
			w.box.git("config", config[i], config[i+1])
		}
	}
	for _, dir := range []string{filepath.Join(w.box.dir, ".git", "hooks"), filepath.Join(w.user.dir, ".git", "hooks")} {
		for _, hook := range []string{"pre-push", "reference-transaction", "post-receive", "pre-receive", "update", "post-update", "proc-receive", "push-to-checkout", "fsmonitor-watchman", "post-index-change", "pre-auto-gc"} {
			check(t, os.MkdirAll(dir, 0o755))
			check(t, os.WriteFile(filepath.Join(dir, hook), []byte("#!/bin/sh\ntouch '"+marker+"'\n"), 0o755)) //nolint:gosec // a program
		}
	}
	w.user.git("config", "core.fsmonitor", program)
	tip := w.box.commit(".gitattributes", "* filter=x diff=x merge=x\n") // names from the tree
	pack := w.pack(w.box, tip, w.record.BaseOID)
	_ = os.Remove(marker) // the user's own git ran hooks here
	box(
		"core.hooksPath", filepath.Dir(program), "core.fsmonitor", program, "core.sshCommand", program, "credential.helper", "!"+program,
		"remote.origin.receivepack", program, "remote.origin.uploadpack", program, "core.gitProxy", program, "core.alternateRefsCommand", program,
		"filter.x.smudge", program, "filter.x.clean", program, "diff.x.command", program, "diff.x.textconv", program, "diff.external", program,
		"gpg.program", program, "push.gpgSign", "true", "protocol.ext.allow", "always", "url.ext::"+program+".insteadOf", w.record.RemoteURL, "uploadpack.packObjectsHook", program,
	)
	check(t, os.WriteFile(filepath.Join(w.box.dir, ".git", "objects", "info", "alternates"), []byte(filepath.Join(w.user.dir, ".git", "objects")+"\n"), 0o600))
	ctx := t.Context()
	check(t, w.importTip(pack, tip))
	if l, err := w.gate.Land(ctx, relay.LandRequest{Branch: ownBranch, Tip: tip}); err != nil || l.Status != wire.Landed {
		t.Errorf("%+v, %v", l, err)
	}
	u := policy.RefUpdate{Ref: ownBranch.Ref(), New: tip}
	if _, err := w.gate.Facts(ctx, u); err != nil {
		t.Error(err)
	}
	if _, err := w.gate.Push(ctx, relay.PushRequest{URL: w.record.RemoteURL, Updates: []policy.RefUpdate{u}}, func(int) error { return nil }); err != nil {
		t.Error(err)
	}
	check(t, w.gate.Refresh(ctx))
	opened, err := w.host.Open(ctx, w.user.dir)
	check(t, err)
	check(t, w.host.RefreshSeed(ctx, opened))
	if _, err := w.host.Capture(ctx, opened, gitgate.CaptureOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Error("a planted program ran")
	}
}

// TestGatesShareNothingButTheSeed: no ref of one box, landed or pushed, shows
// in another's.
func TestGatesShareNothingButTheSeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, other := w.newBox("b00000002", "agentbox/two")
	tip := w.box.commit("secret of box one", "1\n")
	w.land(tip, w.record.BaseOID)
	_, err := w.gate.Push(t.Context(), relay.PushRequest{URL: w.record.RemoteURL, Updates: []policy.RefUpdate{{Ref: ownBranch.Ref(), New: tip}}}, func(int) error { return nil })
	check(t, err)
	check(t, w.gate.Refresh(t.Context()))
	check(t, other.Refresh(t.Context()))
	for _, push := range []bool{true, false} {
		refs, err := other.Refs(t.Context(), push)
		check(t, err)
		if strings.Contains(fmt.Sprint(refs), string(tip)) {
			t.Errorf("the other box sees %+v", refs)
		}
	}
	if w.seed().has(tip) {
		t.Error("the commit is in the seed that all boxes read")
	}
	mine, err := w.gate.Refs(t.Context(), true)
	check(t, err)
	if !strings.Contains(fmt.Sprint(mine), string(ownBranch)) {
		t.Errorf("the box does not see its own branch: %+v", mine)
	}
}

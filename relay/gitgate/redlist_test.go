package gitgate_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/gitgate"
)

// hits puts a red list into a form that tests can write down.
func hits(groups []redlist.Group) map[redlist.Class][]core.Untrusted {
	out := map[redlist.Class][]core.Untrusted{}
	for _, g := range groups {
		out[g.Class] = g.Paths
	}
	return out
}

type red = map[redlist.Class][]core.Untrusted

func (w *world) facts(gate relay.Gate, from, to core.ObjectID) policy.Facts {
	w.t.Helper()
	f, err := gate.Facts(w.t.Context(), policy.RefUpdate{Ref: ownBranch.Ref(), Old: from, New: to})
	check(w.t, err)
	return f
}

// TestTheRedListIsSeenByTheFirstAndByEveryLaterLook: in the one commit of a push
// before it is taken in, in a landing, in what has landed and is pushed as a whole,
// and in a commit in between that the tip shows no more.
func TestTheRedListIsSeenByTheFirstAndByEveryLaterLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	const file, executable, link = "100644", "100755", "120000"
	listed := []leaf{
		{file, "CLAUDE.md", "be quick\n"},
		{file, ".GitHub/Workflows/ci.yml", "on: push\n"},
		{executable, ".husky/pre-commit", "#!/bin/sh\n"},
		{file, "src/.gitattributes", "* text\n"},
		{file, ".envrc", "export A=1\n"},
		{file, ".vscode/tasks.json", "{}\n"},
		{file, "web/package.json", "{}\n"},
		{link, "latest", "README"},
		{file, "plain.go", "package plain\n"},
	}
	want := red{
		redlist.AgentConfig: {"CLAUDE.md"}, redlist.Workflow: {".GitHub/Workflows/ci.yml"}, redlist.Hook: {".husky/pre-commit"},
		redlist.GitConfig: {"src/.gitattributes"}, redlist.ShellConfig: {".envrc"}, redlist.EditorTask: {".vscode/tasks.json"},
		redlist.PackageScript: {"web/package.json"}, redlist.Link: {"latest"}, redlist.Executable: {".husky/pre-commit"},
	}
	expect := func(what string, want red, f policy.Facts) {
		t.Helper()
		if diff := cmp.Diff(want, hits(f.RedList), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}

	tip := w.commitOf(listed, base)
	u := policy.RefUpdate{Ref: ownBranch.Ref(), Old: base, New: tip}
	check(t, w.take(w.gate, w.pack(w.box, tip, base), u)) // a push: what it will be asked is found out beside
	f := w.facts(w.gate, base, tip)
	expect("a commit that is pushed", want, f)
	if f.Files != len(listed) || len(f.Findings) != 0 || policy.Push(core.Repo{Branch: ownBranch}, u, f, policy.Settings{}).Verdict != policy.Ask {
		t.Errorf("the red list changes more than what is shown: %+v", f)
	}
	l, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: tip})
	check(t, err)
	if l.Status != wire.Landed {
		t.Fatalf("%+v", l)
	}
	w.open(gitgate.Options{}) // a relay that remembers nothing
	gate, err := w.host.Gate(t.Context(), w.rec, w.record)
	check(t, err)
	expect("what has landed", want, w.facts(gate, base, tip))
	expect("the same, to a remote that lacks it all", want, w.facts(gate, core.ZeroID(40), tip))

	plain := w.commitOf(slices.Concat(listed, []leaf{{file, "more.go", "package plain\n"}}), tip)
	check(t, w.take(gate, w.pack(w.box, plain, tip), policy.RefUpdate{Ref: wire.LandingPrefix + string(ownBranch), New: plain}))
	expect("nothing of the list", nil, w.facts(gate, tip, plain))

	bad := w.commitOf(slices.Concat(listed, []leaf{{file, ".mcp.json", "{}"}}), plain)
	clean := w.commitOf(listed, bad)
	check(t, w.take(gate, w.pack(w.box, clean, plain), policy.RefUpdate{Ref: wire.LandingPrefix + string(ownBranch), New: clean}))
	expect("a commit in between", red{redlist.AgentConfig: {".mcp.json"}}, w.facts(gate, plain, clean))

	l, err = gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: clean})
	if err != nil || l.Status != wire.Landed {
		t.Fatalf("%+v, %v", l, err)
	}
	w.box.git("reset", "-q", "--hard", string(clean))
	w.box.git("rm", "-q", ".envrc")
	check(t, os.Chmod(filepath.Join(w.box.dir, "plain.go"), 0o755)) //nolint:gosec // that is what is tested
	changed := w.box.commit("web/package.json", `{"scripts": {"postinstall": "true"}}`)
	check(t, w.take(gate, w.pack(w.box, changed, clean), policy.RefUpdate{Ref: ownBranch.Ref(), Old: clean, New: changed}))
	expect("a removal, an edit and a mode", red{
		redlist.ShellConfig: {".envrc"}, redlist.PackageScript: {"web/package.json"}, redlist.Executable: {"plain.go"},
	}, w.facts(gate, clean, changed))
}

// TestSubmodulesAreOnTheRedList, with and without a name in .gitmodules.
func TestSubmodulesAreOnTheRedList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	tip := w.commitOf([]leaf{
		{"160000", "vendor/lib", "any id will do"},
		{"100644", ".gitmodules", "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = https://example.com/lib\n"},
	}, base)
	check(t, w.importTip(w.pack(w.box, tip, base), tip))
	want := red{redlist.Submodule: {".gitmodules", "vendor/lib"}}
	if diff := cmp.Diff(want, hits(w.facts(w.gate, base, tip).RedList)); diff != "" {
		t.Error(diff)
	}
}

// TestALargeFileIsOnTheRedList also in a push of several commits, after a restart
// of the relay; and a file just below the bound is not.
func TestALargeFileIsOnTheRedList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	noise := make([]byte, redlist.Large)
	fill(noise)
	w.box.commit("data/below", string(noise[1:]))
	tip := w.box.commit("data/large", string(noise))
	check(t, w.importTip(w.pack(w.box, tip, base), tip))
	want := red{redlist.LargeFile: {"data/large"}}
	if diff := cmp.Diff(want, hits(w.facts(w.gate, base, tip).RedList)); diff != "" {
		t.Errorf("new: %s", diff)
	}
	l, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: tip})
	if err != nil || l.Status != wire.Landed {
		t.Fatalf("%+v, %v", l, err)
	}
	w.open(gitgate.Options{})
	gate, err := w.host.Gate(t.Context(), w.rec, w.record)
	check(t, err)
	if diff := cmp.Diff(want, hits(w.facts(gate, base, tip).RedList)); diff != "" {
		t.Errorf("landed: %s", diff)
	}
}

// TestNamesOfABoxCannotForgeLargeFiles: what git lists of a tree holds names that
// a box chose, and what a listing calls large becomes a file in the gate.
func TestNamesOfABoxCannotForgeLargeFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	tip := w.commitOf([]leaf{
		{"100644", "~" + strings.Repeat("a", 40), "1"}, {"100644", "x\n~../../../../escaped", "2"}, {"100644", "y\n~" + strings.Repeat("b", 40), "3"},
	}, base)
	check(t, w.importTip(w.pack(w.box, tip, base), tip))
	if f := w.facts(w.gate, base, tip); slices.ContainsFunc(f.RedList, func(g redlist.Group) bool { return g.Class == redlist.LargeFile }) {
		t.Errorf("%+v", f.RedList)
	}
	if marks, err := os.ReadDir(filepath.Join(w.home.Gate(w.rec.ID, w.record.Key), "large-files")); err == nil {
		t.Errorf("the gate holds %v", marks)
	}
}

package gitgate_test

import (
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
)

// leaf is an entry of a tree; links and files differ in mode.
type leaf struct{ mode, path, text string }

// commitOf makes a commit of the base's files and the leaves, whatever git thinks
// of their names.
func (w *world) commitOf(leaves []leaf, parents ...core.ObjectID) core.ObjectID {
	w.t.Helper()
	w.box.git("read-tree", string(w.record.BaseOID))
	var list strings.Builder
	for _, l := range leaves {
		id := w.box.feed(l.text, "hash-object", "-w", "--stdin")
		list.WriteString(l.mode + " " + id + "\t" + l.path + "\x00")
	}
	w.box.feed(list.String(), "-c", "core.protectNTFS=false", "-c", "core.protectHFS=false", "update-index", "-z", "--index-info")
	args := []string{"commit-tree", w.box.git("write-tree"), "-m", "a tree"}
	for _, p := range parents {
		args = append(args, "-p", string(p))
	}
	return core.ObjectID(w.box.git(args...))
}

// TestEveryTreeThatTurnsOnTheUserIsHeld, as git itself makes and takes it.
func TestEveryTreeThatTurnsOnTheUserIsHeld(t *testing.T) {
	t.Parallel()
	const (
		file, link = "100644", "120000"

		folder    = "a folder that git takes for a repository"
		collision = "names that differ only in case or form, one of them a link"
		leadsOut  = "a link into .git or out of the tree"
		controls  = "control characters in .gitmodules"
		foreign   = "a name that Windows or macOS reads differently"
	)
	w := newWorld(t)
	for name, c := range map[string]struct {
		leaves []leaf
		rule   string
	}{
		"HEAD and objects":           {[]leaf{{file, "x/HEAD", "ref: refs/heads/main\n"}, {file, "x/objects/a", ""}}, folder},
		"HEAD and refs":              {[]leaf{{file, "x/HEAD", ""}, {file, "x/refs/a", ""}}, folder},
		"HEAD and commondir":         {[]leaf{{file, "x/HEAD", ""}, {file, "x/commondir", "../.git\n"}}, folder},
		"in another case":            {[]leaf{{file, "x/head", ""}, {file, "x/OBJECTS/a", ""}, {file, "x/Refs/a", ""}}, folder},
		"at the root":                {[]leaf{{file, "HEAD", ""}, {file, "refs/a", ""}}, folder},
		"a link out":                 {[]leaf{{link, "a/b", "../../x"}}, leadsOut},
		"an absolute link":           {[]leaf{{link, "a", "/etc/passwd"}}, leadsOut},
		"a link into .git":           {[]leaf{{link, "a", ".git/hooks/pre-commit"}}, leadsOut},
		"a link into .GIT from deep": {[]leaf{{link, "a/b", "../.GIT"}}, leadsOut},
		"a link into git~1":          {[]leaf{{link, "a", "git~1/config"}}, leadsOut},
		"a link beside a folder":     {[]leaf{{link, "Lib", "src"}, {file, "lib/x", ""}}, collision},
		"a link in another form":     {[]leaf{{link, "\u00e9", "src"}, {file, "e\u0301", ""}}, collision},
		"controls in .gitmodules":    {[]leaf{{file, ".gitmodules", "[submodule \"a\"]\n\tpath = a\r\n\turl = https://example.com/a\n"}}, controls},
		"a backslash":                {[]leaf{{file, `a\b`, ""}}, foreign},
		"a device":                   {[]leaf{{file, "aux.c", ""}}, foreign},
		"a stream":                   {[]leaf{{file, "a:b", ""}}, foreign},
		"a trailing dot":             {[]leaf{{file, "a.", ""}}, foreign},
		"a trailing space":           {[]leaf{{file, "a ", ""}}, foreign},
		"a short name":               {[]leaf{{file, "GITMOD~1", ""}}, foreign},
		"an invisible character":     {[]leaf{{file, "a\u200db", ""}}, foreign},
		"another normal form":        {[]leaf{{file, "e\u0301", ""}}, foreign},
		"a line feed":                {[]leaf{{file, "a\nb", ""}}, foreign},
	} {
		tip := w.commitOf(c.leaves, w.record.BaseOID)
		l := w.land(tip, w.record.BaseOID)
		if l.Status != wire.LandedHeld {
			t.Errorf("%s: %+v", name, l)
		}
		f, err := w.gate.Facts(t.Context(), policy.RefUpdate{Ref: ownBranch.Ref(), Old: w.record.BaseOID, New: tip})
		check(t, err)
		rules := map[string]bool{}
		for _, found := range f.Findings {
			rules[found.Rule] = true
		}
		if !rules[c.rule] {
			t.Errorf("%s: findings %v", name, f.Findings)
		}
	}
	plain := w.commitOf([]leaf{{link, "docs/index", "../README"}, {file, "src/head.go", ""}, {file, "src/refs.go", ""}, {"100755", "run", ""}}, w.record.BaseOID)
	if l := w.land(plain, w.record.BaseOID); l.Status != wire.Landed {
		t.Errorf("a plain tree: %+v", l)
	}
}

// TestAMergeOfTwoHarmlessSidesIsHeld where they form a trap together: no file of
// the merge differs from both of its parents.
func TestAMergeOfTwoHarmlessSidesIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	w.user.git("branch", "other")
	head := leaf{"100644", "x/HEAD", "ref: refs/heads/main\n"}
	refs := leaf{"100644", "x/refs/a", ""}
	one, two := w.commitOf([]leaf{head}, base), w.commitOf([]leaf{refs}, base)
	if l := w.land(one, base); l.Status != wire.Landed {
		t.Fatalf("%+v", l)
	}
	check(t, w.importTip(w.pack(w.box, two, base), two))
	if l := w.agree("other", two, base); l.Status != wire.Landed { // trusted from now on, as what has landed is
		t.Fatalf("%+v", l)
	}
	merge := w.commitOf([]leaf{head, refs}, one, two)
	if l := w.land(merge, one, two); l.Status != wire.LandedHeld || !strings.Contains(l.Detail, "takes for a repository") {
		t.Errorf("%+v", l)
	}
}

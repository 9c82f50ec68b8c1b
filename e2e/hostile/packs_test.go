package hostile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/madarco/agentbox/e2e/laptop"
	"github.com/madarco/agentbox/relay/packscan/packtest"
)

// empty is a pack without objects.
var empty = packtest.Of()

var text = packtest.Object{Kind: packtest.Blob, Body: []byte("text\n")}

func blob(body string) packtest.Object {
	return packtest.Object{Kind: packtest.Blob, Body: []byte(body)}
}

func tree(entries ...string) packtest.Object {
	return packtest.Object{Kind: packtest.Tree, Body: []byte(strings.Join(entries, ""))}
}

func commit(root packtest.Object, parent string) packtest.Object {
	return packtest.Object{Kind: packtest.Commit, Body: fmt.Appendf(nil,
		"tree %s\nparent %s\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\n\x1b]0;owned\x07 \u202esubject\n", root.ID(), parent)}
}

const (
	file = "100644"
	link = "120000"
	dir  = "40000"
)

// crafted is one commit of a pack that git itself would not make.
type crafted struct {
	name string
	// objects are what the pack holds, the commit's tree first.
	objects []packtest.Object
	// want is what the answer says.
	want string
}

const (
	refused = "unpack rejected"
	held    = "waits for the user's yes"
)

// trees are commits whose trees turn on whoever checks them out.
func trees() []crafted {
	one := func(name, want string, entries ...string) crafted {
		return crafted{name, []packtest.Object{tree(entries...), text}, want}
	}
	e := func(mode, name string) string { return packtest.Entry(mode, name, text) }
	linked := func(name, path, target, want string) crafted {
		to := blob(target)
		return crafted{name, []packtest.Object{tree(packtest.Entry(link, path, to)), to}, want}
	}
	modules := func(name, body, want string) crafted {
		b := blob(body)
		return crafted{name, []packtest.Object{tree(packtest.Entry(file, ".gitmodules", b)), b}, want}
	}
	folder := func(name string, members ...string) crafted {
		inner := make([]string, len(members))
		for i, m := range members {
			inner[i] = e(file, m)
		}
		sub := tree(inner...)
		return crafted{name, []packtest.Object{tree(packtest.Entry(dir, "x", sub)), sub, text}, held}
	}
	list := []crafted{
		one(".git", refused, e(file, ".git")),
		one(".GIT", refused, e(file, ".GIT")),
		one(".git with a joiner", refused, e(file, ".g\u200cit")),
		one("git~1", refused, e(file, "git~1")),
		one("..", refused, e(file, "..")),
		one(".", refused, e(file, ".")),
		one("a/b", refused, e(file, "a/b")),
		one("an empty name", refused, e(file, "")),
		one("entries twice", refused, e(file, "a"), e(file, "a")),
		one("unsorted entries", refused, e(file, "b"), e(file, "a")),
		one("a zero-padded mode", refused, "0"+e(file, "a")),
		linked(".gitmodules as a link", ".gitmodules", "x", refused),
		modules(".gitmodules with an option for a URL", "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=touch\n", refused),
		modules(".gitmodules with a name that leads out", "[submodule \"../../x\"]\n\tpath = x\n\turl = https://example.test/x\n", refused),
		modules(".gitmodules with an update command", "[submodule \"x\"]\n\tpath = x\n\turl = https://example.test/x\n\tupdate = !touch\n", refused),
		modules(".gitmodules with control characters", "[submodule \"x\"]\n\tpath = \"x\x1b]0;owned\x07\"\n\turl = https://example.test/x\n", held),
		linked("a link into .git", "l", ".git/config", held),
		linked("a link into .GIT in a folder's parent", "l", "./.GIT/hooks", held),
		linked("a link out of the tree", "l", "../../.bashrc", held),
		linked("an absolute link", "l", "/etc/passwd", held),
		one(`a name with \`, held, e(file, `..\..\x`)),
		one("a device of Windows", held, e(file, "con.txt")),
		one("a name that ends in a dot", held, e(file, "a.")),
		one("a name with escapes", held, e(file, "a\x1b]0;owned\x07")),
		one("a name that reads backwards", held, e(file, "a\u202etxt.exe")),
		folder("a bare repository", "HEAD", "config", "objects", "refs"),
		folder("a bare repository in other case", "Head", "OBJECTS"),
		folder("a worktree's folder", "HEAD", "commondir"),
	}
	lib := tree(e(file, "a"))
	for name, pair := range map[string][2]string{"case": {"LIB", "lib"}, "form": {"e\u0301", "\u00e9"}} {
		list = append(list, crafted{
			"a link and a folder of the same name but for " + name,
			[]packtest.Object{tree(packtest.Entry(link, pair[0], text), packtest.Entry(dir, pair[1], lib)), lib, text},
			held,
		})
	}
	return append(list, deep(30000))
}

// deep is a tree on which git runs out of stack.
func deep(depth int) crafted {
	inner := tree(packtest.Entry(file, "f", text))
	objects := []packtest.Object{text, inner}
	for range depth {
		inner = tree(packtest.Entry(dir, "d", inner))
		objects = append(objects, inner)
	}
	objects[0], objects[len(objects)-1] = objects[len(objects)-1], objects[0]
	return crafted{fmt.Sprintf("a tree %d deep", depth), objects, refused}
}

// bombs are packs that cost more than they weigh, or are none.
func bombs(parent string) map[string][]byte {
	good := commit(tree(packtest.Entry(file, "a", text)), parent)
	whole := packtest.Of(good, tree(packtest.Entry(file, "a", text)), text)
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 0x40
	return map[string][]byte{
		"deltas that make 1.6 GB":      unfolding(),
		"a blob that says 1.5 GB":      packtest.New("sha1", 1).Head(packtest.Blob, 1536<<20).Zeros(1 << 20).Seal(),
		"a zip bomb of 400 MB":         packtest.New("sha1", 1).Head(packtest.Blob, 400<<20).Zeros(400 << 20).Seal(),
		"a count of 2^31-1":            packtest.New("sha1", 1<<31-1).Seal(),
		"a bit flip":                   flipped,
		"a truncated pack":             whole[:len(whole)-30],
		"bytes behind the pack":        append(append([]byte(nil), whole...), "more"...),
		"no pack at all":               []byte("GET / HTTP/1.1\r\n\r\n"),
		"a pack without what is named": empty,
	}
}

// unfolding is a pack of 8 MB, of noise, which a delta repeats 200 times: not
// enough for the bound on what inflates.
func unfolding() []byte {
	noise := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(noise) //nolint:errcheck // it never fails
	size := uint64(len(noise))
	// Copy 0x7fffff bytes from the start (gitformat-pack(5), "Deltified representation").
	const most, times = 0x7fffff, 200
	delta := packtest.Delta(size, most*times, bytes.Repeat([]byte{0xf0, 0xff, 0xff, 0x7f}, times)...)
	base := packtest.Object{Kind: packtest.Blob, Body: noise}
	return packtest.New("sha1", 2).Head(packtest.Blob, size).Deflate(noise).
		Head(packtest.RefDelta, uint64(len(delta))).Raw(base.Sum()...).Deflate(delta).Seal()
}

// packed are the requests that hand all of it in.
func packed(l *laptop.Laptop, base string) []request {
	ref := "refs/agentbox/landing/" + l.Branch
	var list []request
	for _, c := range trees() {
		tip := commit(c.objects[0], base)
		list = append(list, push(c.name, packtest.Of(append(c.objects, tip)...), c.want, zero+" "+tip.ID()+" "+ref))
	}
	tip := commit(tree(packtest.Entry(file, "a", text)), base)
	for name, pack := range bombs(base) {
		list = append(list,
			push(name+", landing", pack, refused, zero+" "+tip.ID()+" "+ref),
			push(name+", push", pack, refused, zero+" "+tip.ID()+" refs/heads/"+l.Branch),
		)
	}
	return list
}

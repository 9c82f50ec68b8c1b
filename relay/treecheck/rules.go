package treecheck

import (
	"iter"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// rule is one line of the table: what it is called in front of a person, and
// how it recognises its case. Rules without functions need the whole tree;
// Check applies them.
type rule struct {
	// name completes "the commits hold …".
	name string
	// path judges by the name alone.
	path func(path string) bool
	// wants tells whether content must see the blob at this path.
	wants   func(path string, mode uint32) bool
	content func(path string, data []byte) bool
}

// rules is the table of structures that hold a commit.
var rules = [...]rule{
	{name: "a folder that git takes for a repository"},
	{name: "names that differ only in case or form, one of them a link"},
	{
		name:    "a link into .git or out of the tree",
		wants:   func(_ string, mode uint32) bool { return mode == modeLink },
		content: func(path string, data []byte) bool { return escapes(path, string(data)) },
	},
	{
		name: "control characters in .gitmodules",
		wants: func(p string, mode uint32) bool {
			return mode != modeLink && mode&0o170000 == 0o100000 && fold(path.Base(p)) == ".gitmodules"
		},
		content: func(_ string, data []byte) bool { return hasControls(data) },
	},
	{
		name: "a name that Windows or macOS reads differently",
		path: func(p string) bool {
			for name := range strings.SplitSeq(p, "/") {
				if foreign(name) {
					return true
				}
			}
			return false
		},
	},
}

var (
	ruleFolder    = &rules[0]
	ruleCollision = &rules[1]
)

// members are the names that make a folder look like a repository.
type members uint8

const (
	memberHead members = 1 << iota
	memberObjects
	memberRefs
	memberCommonDir
)

var memberNames = map[string]members{
	"head": memberHead, "objects": memberObjects, "refs": memberRefs, "commondir": memberCommonDir,
}

// suspects yields every folder that path gives one of the members to; "." is
// the root of the tree.
func suspects(path string) iter.Seq2[string, members] {
	return func(yield func(string, members) bool) {
		for start := 0; start < len(path); {
			name, _, _ := strings.Cut(path[start:], "/")
			// The longest member is nine bytes; folding can at most triple that.
			if len(name) <= 27 {
				if m, ok := memberNames[fold(name)]; ok {
					folder := strings.TrimSuffix(path[:start], "/")
					if folder == "" {
						folder = "."
					}
					if !yield(folder, m) {
						return
					}
				}
			}
			start += len(name) + 1
		}
	}
}

// ends yields, for path and its folded form, where each component ends in both.
func ends(path, folded string) iter.Seq[[2]int] {
	return func(yield func([2]int) bool) {
		for p, f := 0, 0; ; p, f = p+1, f+1 {
			p, f = next(path, p), next(folded, f)
			if !yield([2]int{p, f}) || p == len(path) || f == len(folded) {
				return
			}
		}
	}
}

func next(s string, from int) int {
	if i := strings.IndexByte(s[from:], '/'); i >= 0 {
		return from + i
	}
	return len(s)
}

// fold maps names that a case-insensitive, form-insensitive file system takes
// for one to the same string.
func fold(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return norm.NFC.String(cases.Fold().String(norm.NFC.String(s)))
		}
	}
	return strings.ToLower(s)
}

// escapes tells whether a link at p with this target leads out of the tree or
// into a .git. A ".." behind a name counts as leading out, because the name
// may be a link itself and what ".." means is then decided elsewhere.
func escapes(p, target string) bool {
	target = strings.ReplaceAll(target, `\`, "/")
	if target == "" || len(target) > 4095 || strings.HasPrefix(target, "/") || strings.ContainsAny(target, ":\x00") {
		return true
	}
	up, named := 0, false
	for name := range strings.SplitSeq(target, "/") {
		switch {
		case name == "" || name == ".":
		case name == "..":
			if up++; named {
				return true
			}
		case isDotGit(name):
			return true
		default:
			named = true
		}
	}
	return up > strings.Count(p, "/")
}

// isDotGit recognises .git in the spellings that some file system reads so:
// other case, invisible characters, trailing dots and spaces, the short name.
func isDotGit(name string) bool {
	visible := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
	visible = strings.TrimRight(fold(visible), ". ")
	return visible == ".git" || visible == "git~1"
}

func hasControls(data []byte) bool {
	for _, c := range data {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}

var (
	// devices are names that Windows gives to devices in every folder, with or
	// without an extension ("Naming Files, Paths, and Namespaces").
	devices = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])$`)
	// shortName is the form of the second name that NTFS and FAT give to files.
	shortName = regexp.MustCompile(`^[^.]{1,6}~[0-9]+(\.[^.]{0,3})?$`)
)

// foreign tells whether Windows or macOS takes the name for another one, or
// for none.
func foreign(name string) bool {
	if strings.ContainsAny(name, `<>:"|?*\`) || hasControls([]byte(name)) || strings.ContainsAny(name, "\n\t") {
		return true
	}
	if strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || !utf8.ValidString(name) || !norm.NFC.IsNormalString(name) {
		return true
	}
	for _, r := range name {
		if unicode.Is(unicode.Cf, r) {
			return true
		}
	}
	stem, _, _ := strings.Cut(name, ".")
	return devices.MatchString(strings.TrimRight(stem, " ")) || shortName.MatchString(name)
}

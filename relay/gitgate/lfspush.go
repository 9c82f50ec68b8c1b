package gitgate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
)

// maxPointers is how many pointers of one push are looked for and named.
const maxPointers = 5

// refusePointers refuses a push that would bring the remote pointers of git-lfs
// whose contents it does not have: only the box has those, and whoever checks
// the branch out would be without them.
func (g *gate) refusePointers(ctx context.Context, updates []policy.RefUpdate) error {
	if !g.storesLFS() {
		return nil
	}
	have, err := g.seedRefs(ctx)
	if err != nil {
		return fmt.Errorf("look for git-lfs files: %w", err)
	}
	pushed, err := g.h.storedRefs(ctx, g.dir, refRemote)
	if err != nil {
		return fmt.Errorf("look for git-lfs files: %w", err)
	}
	var want, without []core.ObjectID
	for _, u := range updates {
		want = append(want, u.New)
	}
	for _, r := range append(have, pushed...) {
		without = append(without, r.oid)
	}
	found, err := g.pointers(ctx, want, without)
	if err != nil {
		return fmt.Errorf("look for git-lfs files: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	return rejected("it adds files whose contents git-lfs keeps, and those can't be uploaded from a box: %s; keep them out of git-lfs, or add them on the host",
		strings.Join(found, ", "))
}

// storesLFS tells whether the user's repository keeps contents with git-lfs, by
// files that only the user writes.
func (g *gate) storesLFS() bool {
	if _, err := os.Stat(filepath.Join(g.repo.CommonDir, "lfs")); err == nil {
		return true
	}
	st, err := os.Stat(g.repo.WorkTree)
	if err != nil {
		return false
	}
	owner, _ := accountOf(st)
	text, err := workTree{g.repo.WorkTree, owner.uid}.text(".gitattributes", maxText)
	return err == nil && strings.Contains(text, "filter=lfs")
}

// pointers names files that are new in want and are pointers, quoted.
func (g *gate) pointers(ctx context.Context, want, without []core.ObjectID) ([]string, error) {
	names := map[core.ObjectID]string{}
	var ids, small bytes.Buffer
	list := g.in("rev-list", "--objects", "--stdin")
	list.stdin, list.deadline = revisions(want, without), capture
	err := g.h.run.stream(ctx, list, func(r io.Reader) error {
		return eachRecord(r, '\n', func(line []byte) error {
			if id, name, ok := strings.Cut(string(line), " "); ok && name != "" {
				names[core.ObjectID(id)] = name
				fmt.Fprintln(&ids, id)
			}
			return nil
		})
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	sizes := g.in("cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)")
	sizes.stdin, sizes.deadline = &ids, capture
	err = g.h.run.stream(ctx, sizes, func(r io.Reader) error {
		return eachRecord(r, '\n', func(line []byte) error {
			f := strings.Fields(string(line))
			if len(f) == 3 && f[0] == "blob" {
				if n, err := strconv.Atoi(f[1]); err == nil && n < lfsPointerSize {
					fmt.Fprintln(&small, f[2])
				}
			}
			return nil
		})
	})
	if err != nil || small.Len() == 0 {
		return nil, err
	}
	var found []string
	contents := g.in("cat-file", "--batch=%(objectname) %(objectsize)")
	contents.stdin, contents.deadline = &small, capture
	err = g.h.run.stream(ctx, contents, func(r io.Reader) error {
		return eachBlob(r, func(id core.ObjectID, text []byte) {
			if bytes.HasPrefix(text, []byte(lfsPointer)) && len(found) < maxPointers {
				found = append(found, core.Untrusted(names[id]).Quote())
			}
		})
	})
	return found, err
}

// eachBlob reads what cat-file --batch prints of small blobs.
func eachBlob(r io.Reader, each func(id core.ObjectID, text []byte)) error {
	in := bufio.NewReader(r)
	for {
		head, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) && head == "" {
			return nil
		} else if err != nil {
			return err
		}
		id, size, _ := strings.Cut(strings.TrimSuffix(head, "\n"), " ")
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || n >= lfsPointerSize {
			return errGitOutput
		}
		text := make([]byte, n+1) // with the line feed behind it
		if _, err := io.ReadFull(in, text); err != nil {
			return err
		}
		each(core.ObjectID(id), text[:n])
	}
}

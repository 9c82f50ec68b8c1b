package gitgate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/setup"
)

// Place says where the box finds the host's side of a repository.
type Place struct {
	// Endpoint is the relay's smart-HTTP address as seen in the box.
	Endpoint string
	// Alternates is the box's path of the seed's objects.
	Alternates string
}

// operations are the files of an operation in progress that git needs to go on
// with it, and whether they name commits.
var operations = map[string]bool{
	"MERGE_HEAD": true, "CHERRY_PICK_HEAD": true, "REVERT_HEAD": true, "MERGE_MSG": false, "MERGE_MODE": false, "SQUASH_MSG": false,
}

const maxText = 1 << 20

// readOperation takes over a merge, cherry-pick or revert in progress. The
// commits that it names are carried only if the box may see them.
func (c *Carry) readOperation(ctx context.Context, opts CaptureOptions) error {
	gitDir := workTree{c.repo.GitDir, c.repo.owner.uid}
	for name, commits := range operations {
		text, err := gitDir.text(name, maxText)
		if errors.Is(err, errNotCarried) {
			continue
		} else if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		if commits {
			hidden, err := c.hidden(ctx, text)
			if err != nil {
				return err
			}
			if len(hidden) > 0 && !opts.MergeParents {
				c.note("%s names a commit of a branch that boxes do not see: the files are carried as plain edits", name)
				continue
			}
			c.want = append(c.want, hidden...)
		}
		c.pseudoRefs[name] = text
	}
	for _, folder := range []string{"rebase-merge", "rebase-apply", "sequencer"} {
		if _, err := os.Lstat(filepath.Join(c.repo.GitDir, folder)); err == nil {
			c.note("the operation in progress (%s) is not carried: the files are, as plain edits", folder)
		}
	}
	slices.Sort(c.Notes)
	return nil
}

// hidden are the commits among the lines of text that neither the seed nor
// the box's base reaches.
func (c *Carry) hidden(ctx context.Context, text string) ([]core.ObjectID, error) {
	var ids []core.ObjectID
	for line := range strings.Lines(text) {
		id, err := core.ParseObjectID(strings.TrimSpace(line))
		if err != nil {
			return nil, errGitOutput
		}
		ids = append(ids, id)
	}
	far, err := c.h.beyond(ctx, c.h.theirs(c.repo), ids, append(commits(c.repo.visible), c.repo.Head))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ids, func(id core.ObjectID) bool { return !far[id] }), nil
}

// carried are the user's settings that decide what a work tree looks like and
// who commits; their values are copied, nothing else of the configuration.
var carried = []string{
	"core.autocrlf", "core.eol", "core.safecrlf", "core.ignorecase", "core.symlinks", "core.filemode",
	"core.sparsecheckout", "core.sparsecheckoutcone", "user.name", "user.email",
}

// SetupRepo describes the repository that is to be made in the box. The seed
// must be fresh and carry captured from the same repository.
func (h *Host) SetupRepo(ctx context.Context, r *Repository, record core.Repo, carry *Carry, place Place) (setup.Repo, error) {
	out := setup.Repo{
		Repo: record, Endpoint: place.Endpoint, Alternates: place.Alternates, Shallow: r.Shallow,
		Symrefs: map[string]string{}, Info: map[string]string{}, PseudoRefs: carry.pseudoRefs,
		SkipWorktree: carry.skipWorktree, AssumeUnchanged: carry.assumeUnchanged, IntentToAdd: carry.intentToAdd,
		Deleted: carry.deleted, HasIndex: carry.index != nil, LFS: carry.LFS,
	}
	if r.URL != "" {
		out.Rewrites = spellings(r.URL)
	}
	boxRefs(r, record, &out)
	out.Config = carriedConfig(r, record)
	if err := h.infoFiles(ctx, r, out.Info); err != nil {
		return out, fmt.Errorf("read the git settings of %s: %w", r.WorkTree, err)
	}
	return out, nil
}

// boxRefs fills in what the box's packed-refs hold.
func boxRefs(r *Repository, record core.Repo, out *setup.Repo) {
	tracking := "refs/remotes/" + string(r.Remote) + "/"
	known := map[string]bool{}
	for _, v := range r.visible {
		name := v.name
		if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			name = tracking + branch
		}
		known[name] = true
		out.Refs = append(out.Refs, setup.Ref{Name: name, OID: v.oid, Peeled: v.peeled})
	}
	if head := tracking + string(r.DefaultBranch); r.DefaultBranch != "" && known[head] {
		out.Symrefs[tracking+"HEAD"] = head
	}
	if record.BaseBranch != "" {
		for _, name := range []string{record.BaseBranch.Ref(), "refs/remotes/host/" + string(record.BaseBranch)} {
			if !known[name] { // a remote may be called host
				out.Refs = append(out.Refs, setup.Ref{Name: name, OID: r.Head})
			}
		}
	}
	slices.SortFunc(out.Refs, func(a, b setup.Ref) int { return strings.Compare(a.Name, b.Name) })
}

// carriedConfig are the settings of carried, and where the base branch pulls
// from.
func carriedConfig(r *Repository, record core.Repo) []setup.ConfigEntry {
	values := map[string]string{}
	for _, kv := range r.config {
		values[kv[0]] = kv[1] // the last one counts
	}
	var out []setup.ConfigEntry
	for _, key := range carried {
		if value, ok := values[key]; ok {
			out = append(out, setup.ConfigEntry{Key: key, Value: value})
		}
	}
	for _, kv := range r.config {
		key, value := kv[0], kv[1]
		if _, ok := between(key, "submodule.", ".url"); ok {
			out = append(out, setup.ConfigEntry{Key: key, Value: stripUser(value)})
		}
		for _, setting := range []string{".active", ".ignore"} {
			if _, ok := between(key, "submodule.", setting); ok {
				out = append(out, setup.ConfigEntry{Key: key, Value: value})
			}
		}
	}
	base := "branch." + string(record.BaseBranch)
	if record.BaseBranch != "" && record.Remote != "" && values[base+".remote"] == string(record.Remote) {
		for _, key := range []string{base + ".remote", base + ".merge"} {
			out = append(out, setup.ConfigEntry{Key: key, Value: values[key]})
		}
	}
	return out
}

// infoFiles reads the texts that decide which files git sees and how, the
// user's own ignore file among them.
func (h *Host) infoFiles(ctx context.Context, r *Repository, info map[string]string) error {
	for name, dir := range map[string]string{"exclude": r.CommonDir, "attributes": r.CommonDir, "sparse-checkout": r.GitDir} {
		text, err := workTree{dir, r.owner.uid}.text("info/"+name, maxText)
		if err != nil && !errors.Is(err, errNotCarried) {
			return err
		}
		if text != "" {
			info[name] = text
		}
	}
	if r.owner.as != nil {
		return nil // not ours to read
	}
	ignore, err := h.usersFile(ctx, r, "core.excludesFile", "ignore")
	if err != nil {
		return err
	}
	if ignore != "" { // first, so that the repository's own patterns win
		info["exclude"] = ignore + "\n" + info["exclude"]
	}
	attributes, err := h.usersFile(ctx, r, "core.attributesFile", "attributes")
	if attributes != "" {
		info[setup.UserAttributes] = attributes
	}
	return err
}

// usersFile reads a file of the user's that the setting names, or that lies in
// its usual place; "" where there is none.
func (h *Host) usersFile(ctx context.Context, r *Repository, setting, name string) (string, error) {
	var path string
	if slices.ContainsFunc(r.config, func(kv [2]string) bool { return strings.EqualFold(kv[0], setting) }) {
		var err error // git knows what a tilde stands for
		if path, err = h.run.line(ctx, h.theirs(r, "config", "--includes", "--type=path", setting)); err != nil {
			return "", err
		}
	} else {
		base := os.Getenv("XDG_CONFIG_HOME")
		if base == "" {
			base = filepath.Join(r.owner.home, ".config")
		}
		path = filepath.Join(base, "git", name)
	}
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Size() > maxText {
		return "", nil //nolint:nilerr // git too takes a file that it can't read for none
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

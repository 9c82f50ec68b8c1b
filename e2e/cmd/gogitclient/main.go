// Command gogitclient is a git client that shares no code with git itself: it
// clones a URL into memory with go-git, commits one file on a branch and
// pushes it. The end-to-end suite runs it in a box, to show that the endpoint
// speaks the protocol and not merely to git.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gogitclient <url> <branch>")
		os.Exit(2)
	}
	oid, err := run(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gogitclient:", err)
		os.Exit(1)
	}
	fmt.Println(oid)
}

func run(url, branch string) (plumbing.Hash, error) {
	repo, err := git.Clone(memory.NewStorage(), memfs.New(), &git.CloneOptions{URL: url, ReferenceName: plumbing.NewBranchReferenceName(branch)})
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("clone: %w", err)
	}
	tree, err := repo.Worktree()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	file, err := tree.Filesystem.Create("from-go-git.txt")
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := fmt.Fprintln(file, "written by another client"); err != nil {
		return plumbing.ZeroHash, err
	}
	if err := file.Close(); err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := tree.Add("from-go-git.txt"); err != nil {
		return plumbing.ZeroHash, err
	}
	oid, err := tree.Commit("add a file with another client", &git.CommitOptions{
		Author: &object.Signature{Name: "go-git", Email: "client@example.test", When: time.Now()},
	})
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("commit: %w", err)
	}
	spec := config.RefSpec(plumbing.NewBranchReferenceName(branch) + ":" + plumbing.NewBranchReferenceName(branch))
	if err := repo.Push(&git.PushOptions{RemoteURL: url, RefSpecs: []config.RefSpec{spec}}); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("push: %w", err)
	}
	return oid, nil
}

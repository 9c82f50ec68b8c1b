package oddrepos

import "github.com/madarco/agentbox/relay/gitgate"

// odd is one repository and what a create of it must do. The script runs in an
// empty folder with the functions of prelude and makes the project in "repo".
// A file named "ran" beside it means that the host ran something of the user's.
type odd struct {
	name    string
	proves  string
	script  string
	project string   // other than "repo"
	include []string // names of untracked files to carry although they look secret
	from    string   // where the box starts instead of HEAD
	leftOut []string // paths that the box does not get
	differs bool     // the box is not meant to be at the user's HEAD and status
	notes   []string // each is part of what the user is told
	refused error    // no box can be made
	newest  bool     // only the newest git can make such a repository
	once    bool     // no git differs from another here
}

const prelude = `
new() { git init -q -b main "$@" repo; cd repo; git config user.name Ada; git config user.email ada@example.com; }
put() { mkdir -p -- "$(dirname -- "$1")"; printf '%s\n' "${2-first}" >"./$1"; }
save() { git add -A; git commit -qm "${1-save}"; }
publish() { git init -q --bare -b main --object-format=$(git rev-parse --show-object-format) ../remote.git; git remote add origin "$PWD/../remote.git"; git push -q -u origin HEAD; git remote set-head origin -a >/dev/null; }
start() { new "$@"; put a; put dir/b; save start; publish; }
pointer() { printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' "$1" "$2"; }
`

// dirt leaves changes of every kind that a repository can have.
const dirt = `
put staged; put unstaged; put both; put gone; put unlisted; put script; put 'old name'; save base; git push -q
put staged second; put both second; put 'new staged'; git add staged both 'new staged'; put both third
put unstaged second; rm gone; git rm -q --cached unlisted; chmod +x script; git mv 'old name' 'new name'
put intended; git add -N intended; put deep/er/untracked; ln -s nowhere dangling; ln -s /etc/hostname absolute
`

var cases = []odd{
	{name: "clean", proves: "the plain case", script: `start`},
	{name: "dirty", proves: "staged, unstaged, both, deleted, unlisted, mode, rename, intent to add, links", script: `start; ` + dirt},
	{name: "no remote", once: true, proves: "no remote is needed", script: `new; put a; save; put b`},
	{
		name: "unpushed base", once: true, proves: "commits that no remote has come along, the branches beside them do not",
		script: `start; git checkout -q -b private; put secret; save; git checkout -q main; put c; save unpushed; git stash -q 2>/dev/null || true`,
	},
	{name: "detached at a tag", proves: "a box can start from a tag", script: `start; git tag v1; put a second; save; git checkout -q v1; put a third`},
	{name: "branch with slashes", once: true, proves: "any branch name can be the base", script: `start; git checkout -q -b feat/x/y; put a second`},
	{name: "branch in unicode", once: true, proves: "a branch that a box can't name works like a detached HEAD", script: `start; git checkout -q -b "fünf-☃"; put a second`},
	{name: "empty", once: true, proves: "a repository without a commit is refused", script: `new`, refused: gitgate.ErrUnborn},
	{name: "unborn branch", proves: "so is a branch without one", script: `start; git checkout -q --orphan fresh; git rm -rqf --cached .`, refused: gitgate.ErrUnborn},
	{name: "bare", proves: "a bare repository is refused", script: `start; cd ..; git clone -q --bare repo bare.git`, project: "bare.git", refused: gitgate.ErrBare},
	{name: "git folder that leads nowhere", once: true, proves: "a broken repository is no plain directory", script: `start; rm -rf .git; echo 'gitdir: /nonexistent/x' >.git`, refused: gitgate.ErrBroken},
	{name: "linked worktree", proves: "HEAD, index and changes are the work tree's own", script: `start; git worktree add -q -b feature ../linked; cd ../linked; ` + dirtHere, project: "linked"},
	{name: "worktree with its own settings", proves: "extensions.worktreeConfig counts", script: `start; git config extensions.worktreeConfig true; git config --worktree core.autocrlf true; rm -r a dir; git reset -q --hard; printf 'a\r\nb\r\n' >crlf; git add crlf`},
	{name: "git folder elsewhere", once: true, proves: "a .git file is followed", script: `new --separate-git-dir=../elsewhere.git; put a; save; publish; put b; put a second`},
	{name: "core.worktree", proves: "a work tree beside its repository works from there", script: `start; mv .git ../moved.git; git --git-dir=../moved.git config core.worktree "$PWD"; echo 'gitdir: ../moved.git' >.git; put a second`},
	{
		name: "shallow", proves: "the border of history comes along",
		script: `start; put a second; save; put a third; save; git push -q; cd ..; mv repo whole; git clone -q --depth=2 "file://$PWD/remote.git" repo; cd repo; put a fourth; put new`,
	},
	{
		name: "shallow with commits of its own", once: true, proves: "so do commits on top of it",
		script: `start; put a second; save; git push -q; cd ..; mv repo whole; git clone -q --depth=1 "file://$PWD/remote.git" repo; cd repo; git config user.name a; git config user.email a@b; put mine; save`,
	},
	{
		name: "partial", proves: "what a partial clone lacks is not fetched", notes: []string{"partial clone"},
		script: `start; put a second; save; put a third; save; git push -q; git -C ../remote.git config uploadpack.allowFilter true; cd ..; mv repo whole
			git clone -q --filter=blob:none "file://$PWD/remote.git" repo; mv remote.git gone.git; cd repo; put a fourth; put new`,
	},
	{
		name: "partial and sparse", proves: "files that were never fetched stay out of the work tree", notes: []string{"partial clone"},
		script: `start; put near/x; put far/y; put far/z; save; git push -q; git -C ../remote.git config uploadpack.allowFilter true; cd ..; mv repo whole
			git clone -q --filter=blob:none --no-checkout "file://$PWD/remote.git" repo; cd repo; git sparse-checkout init --cone; git sparse-checkout set near; git checkout -q main; mv ../remote.git ../gone.git; put near/x second`,
	},
	{
		name: "partial without its files", proves: "a file that can't be had is said before a box is made", refused: gitgate.ErrIncomplete,
		script: `start; put a second; save; git push -q; git -C ../remote.git config uploadpack.allowFilter true; cd ..; mv repo whole
			git clone -q --filter=blob:none --no-checkout "file://$PWD/remote.git" repo; cd repo; mv ../remote.git ../gone.git; git read-tree HEAD`,
	},
	{name: "sparse in cone mode", proves: "the same files are in the work tree", script: `start; put near/x; put far/y; save; git sparse-checkout init --cone; git sparse-checkout set near; put near/x second; put near/new`},
	{name: "sparse by patterns", proves: "so they are without the cone", script: `start; put near/x; put far/y; put far/deep/z; save; git config core.sparseCheckout true; printf '/*\n!/far/\n/far/deep/\n' >.git/info/sparse-checkout; git read-tree -mu HEAD; put far/deep/z second`},
	{name: "sparse index", proves: "an index with folders reads as one with files", newest: true, script: `start; put near/x; put far/y; save; git sparse-checkout set --cone --sparse-index near; put near/x second`},
	{name: "sha256", proves: "the object format is the user's", script: `start --object-format=sha256; ` + dirt},
	{name: "reftable", proves: "refs in another format are read", newest: true, script: `start --ref-format=reftable; git tag v1; put a second`},
	{
		name: "odd names", proves: "paths are bytes",
		script: `start; put 'with space'; put 'quote"and'\''tick'; put 'back\slash'; put -dash; put 'tab	x'; put 'line
feed'; put ünï/cödé; put "$(printf 'latin\351')"; put ' lead'; put 'trail '; put ':(top)magic'; put '[glob]*?'; save; put 'with space' second; put 'line
feed' second; put "$(printf 'untracked\351')"; put ':!x'; git add -- ':(literal):(top)magic'`,
	},
	{name: "case collisions", once: true, proves: "names that differ in case alone are two", script: `start; put README; put readme second; put Dir/x; put dir/X; save; put readme third`},
	{
		name: "merge in conflict", proves: "unmerged entries and the merge itself come along",
		script: `start; git checkout -q -b side; put a theirs; put gone theirs; save; git push -q origin side; git checkout -q main; put a ours; put c; save; git merge side >/dev/null 2>&1 || true; test -f .git/MERGE_HEAD`,
	},
	{
		name: "merge with a private branch", once: true, proves: "a commit that boxes do not see makes the merge plain edits", notes: []string{"carried as plain edits"},
		script: `start; git checkout -q -b private; put a theirs; save; git checkout -q main; put a ours; save; git merge private >/dev/null 2>&1 || true; test -f .git/MERGE_HEAD`,
	},
	{
		name: "rebase in conflict", proves: "a rebase stays with the user, its files come along", notes: []string{"rebase", "plain edits"},
		script: `start; git checkout -q -b side; put a theirs; save; git checkout -q main; put a ours; save; git checkout -q side; git rebase main >/dev/null 2>&1 || true; test -d .git/rebase-merge -o -d .git/rebase-apply`,
	},
	{name: "cherry-pick in conflict", proves: "so does a cherry-pick", script: `start; put a second; save; git push -q; git checkout -q -b other HEAD~; put a third; save; git cherry-pick main >/dev/null 2>&1 || true; test -f .git/CHERRY_PICK_HEAD`},
	{name: "bisect", once: true, proves: "a bisect is a detached HEAD", script: `start; for i in 1 2 3 4; do put a $i; save; done; git bisect start -q 2>/dev/null >&2; git bisect bad >/dev/null; git bisect good HEAD~3 >/dev/null`},
	{name: "flags of the index", proves: "skip-worktree and assume-unchanged hide what they hid", script: `start; put s; put t; put u; save; git update-index --skip-worktree s t; git update-index --assume-unchanged u; put s local; rm t; put u local`},
	{name: "line ends", proves: "attributes and autocrlf leave bytes alone", script: `start; git config core.autocrlf true; printf '*.crlf text eol=crlf\n*.bin -text\n* text=auto\n' >.gitattributes; printf 'a\nb\n' >x.crlf; printf 'a\r\nb\n' >x.bin; printf 'a\r\nb\r\n' >y.txt; git add . 2>/dev/null; git commit -qm ends; rm -r a dir x.* y.txt .gitattributes; git reset -q --hard; printf 'more\r\n' >>y.txt`},
	{name: "modes without meaning", once: true, proves: "core.fileMode and core.symlinks count", script: `start; git config core.fileMode false; chmod +x a; git config core.symlinks false; put link-text`},
	{name: "kinds that change", once: true, proves: "a file, a link and a folder can take each other's place", script: `start; put file; put tree/x; ln -s a link; ln -s dir dirlink; save; rm file; put file/inside; rm -r tree; put tree; rm link; put link; rm dirlink; mkdir dirlink; put dirlink/x`},
	{name: "repositories within", proves: "each is a repository of its own in the box", notes: []string{"lib", "a branch of its own"}, script: `start; (git init -q -b main lib; cd lib; git config user.name a; git config user.email a@b; put l; save; put l second; put new; put .env SECRET=1); put z`, leftOut: []string{"lib/.env"}},
	{name: "ignored repository within", once: true, proves: "it counts although git ignores it", notes: []string{"lib"}, include: []string{"lib/wanted.pem"}, leftOut: []string{"lib/other.pem"}, script: `start; echo /lib/ >.gitignore; save; git init -q -b main lib; cd lib; git config user.name a; git config user.email a@b; put l; save; put l second; put wanted.pem; put other.pem`},
	{name: "repository within that can't be had", once: true, proves: "one that has no commit stays out, and is named", notes: []string{`left out: repository "lib" (the repository has no commit`}, script: `start; git init -q lib; put lib/x`, leftOut: []string{"lib/", "lib/x"}},
	{name: "work tree within", once: true, proves: "another work tree of the same repository stays out", notes: []string{"another work tree"}, script: `start; git worktree add -q -b side side; put side/x`, leftOut: []string{"side/", "side/a", "side/dir/b", "side/x"}},
	{
		name: "git file that leads out", once: true, proves: "an unpacked archive can't name a repository of the user's", notes: []string{"outside of the project"},
		script: `start; git init -q ../other; (cd ../other; git config user.name a; git config user.email a@b; put secret; save); mkdir trap; echo "gitdir: $(cd ../other/.git && pwd)" >trap/.git; echo x >trap/x`, leftOut: []string{"trap/", "trap/x"},
	},
	{name: "gitlink without a module", once: true, proves: "an entry that leads to nothing is an empty folder", script: `start; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub; git commit -qm link; mkdir sub`},
	{
		name: "submodules", proves: "those that are checked out come along with theirs, the others are empty", notes: []string{"not checked out", "a branch of its own"},
		script: `start; for s in deep one two; do (mkdir ../$s; cd ../$s; new; put s $s; save); done
			git() { command git -c protocol.file.allow=always "$@"; }
			(cd ../one/repo; git submodule --quiet add "$D/deep/repo" 'in ner'; save inner)
			for s in one two; do git submodule --quiet add "$D/$s/repo" libs/$s; done; save modules; git submodule --quiet update --init --recursive; git submodule --quiet deinit -f libs/two
			put libs/one/s changed; put libs/one/new; put 'libs/one/in ner/s' deeper; for s in libs/one 'libs/one/in ner'; do git -C "$s" config user.name a; git -C "$s" config user.email a@b; done`,
	},
	{
		name: "submodule at another commit", proves: "the submodule's own HEAD counts",
		script: `start; (cd ..; mkdir one; cd one; new; put s; save); git -c protocol.file.allow=always submodule --quiet add ../one/repo sub; git commit -qm module; cd sub; git config user.name a; git config user.email a@b; put s second; save ahead; cd ..; rm -r dir`,
	},
	{name: "submodule that was removed", once: true, proves: "its folder stays away", script: `start; (cd ..; mkdir one; cd one; new; put s; save); git -c protocol.file.allow=always submodule --quiet add ../one/repo sub; git commit -qm module; rm -r sub`},
	{
		name: "git-lfs without contents", proves: "pointers are files like others", notes: []string{"git-lfs", "pointers"},
		script: `start; echo '*.bin filter=lfs diff=lfs merge=lfs -text' >.gitattributes; pointer 3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7 4 >x.bin
			touch -d yesterday x.bin; git config filter.lfs.process ''; git config filter.lfs.required false; save; git config --remove-section filter.lfs; git config filter.lfs.process 'git-lfs filter-process'`,
	},
	{
		name: "git-lfs with contents", proves: "contents that the host has are there, and git takes them for their pointers",
		script: `start; cat >../lfs-clean <<-'END'
				#!/bin/sh
				t=$(mktemp); cat >$t; touch "$(dirname "$0")/ran"
				printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' "$(sha256sum <$t | cut -d' ' -f1)" "$(stat -c %s $t)"
				rm $t
			END
			chmod +x ../lfs-clean; git config filter.lfs.clean "$D/lfs-clean"; git config filter.lfs.smudge cat
			echo '*.bin filter=lfs diff=lfs merge=lfs -text' >.gitattributes; printf data >x.bin; put y.bin; save; printf 'other data' >y.bin; put 'new.bin' untracked; touch -d yesterday x.bin; rm -f ../ran`,
	},
	{
		name: "programs of the user's", proves: "no hook, filter, monitor or pager of the user's runs on the host",
		script: `start; put x.f; echo '*.f filter=f' >.gitattributes; save
			for h in post-checkout post-index-change reference-transaction pre-auto-gc; do printf '#!/bin/sh\ntouch %s/ran\n' "$D" >.git/hooks/$h; chmod +x .git/hooks/$h; done
			printf '#!/bin/sh\ntouch %s/ran; cat\n' "$D" >../program; chmod +x ../program
			git config filter.f.clean "$D/program"; git config filter.f.smudge "$D/program"; git config filter.f.required true; git config core.fsmonitor "$D/program"; git config core.pager "$D/program"
			git config core.alternateRefsCommand "$D/program"; git config credential.helper "$D/program"; put a second; put b; rm -f ../ran`,
	},
	{name: "alternates", once: true, proves: "borrowed objects come along", script: `start; cd ..; mv repo lender; git clone -q --shared lender repo; cd repo; put a second; put new`},
	{name: "another owner", once: true, proves: "root reads a user's repository as that user", script: `start; put a second; put new; chown -R 1000:1000 ../repo ../remote.git; chmod 755 .. ../.. ../../..`},
	{name: "many untracked", once: true, proves: "thousands of untracked files come along", script: `start; mkdir many; cd many; i=0; while [ $i -lt 3000 ]; do echo $i >f$i; i=$((i+1)); done`},
	{name: "ignored", proves: "ignored files stay, by whichever rule", script: `start; echo '*.log' >.gitignore; save; echo '*.priv' >>.git/info/exclude; put x.log; put y.priv; put z.globally-ignored; put w; git add -f x.log`, leftOut: []string{"y.priv", "z.globally-ignored"}},
	{
		name: "secrets", once: true, proves: "files that look secret stay unless they are named", include: []string{"sub/wanted.pem"}, notes: []string{`".env"`, `"notes"`},
		script: `start; put .env KEY=1; put notes "ghp_$(printf 'a1%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18)"; put sub/wanted.pem; put fine`, leftOut: []string{".env", "notes"},
	},
	{name: "many refs", once: true, proves: "packed refs are read", script: `start; i=0; { echo start; while [ $i -lt 1000 ]; do echo "create refs/heads/b/$i HEAD"; echo "create refs/tags/t$i HEAD"; i=$((i+1)); done; echo prepare; echo commit; } | git update-ref --stdin >/dev/null; git pack-refs --all; git push -q origin 'refs/heads/b/1*' --tags; put a second`},
	{name: "branch in the way", once: true, proves: "a branch called agentbox is named", script: `start; git branch agentbox`, refused: gitgate.ErrInTheWay},
	{name: "replacements and grafts", proves: "history in the box is what the objects say", script: `start; put a second; save; put a third; save; git replace --graft HEAD; mkdir -p .git/info; git rev-parse HEAD~1 >.git/info/grafts 2>/dev/null || git --no-replace-objects rev-parse HEAD~1 >.git/info/grafts; put a fourth`},
	{name: "attributes of the user", once: true, proves: "attributes for all repositories rank below the project's", script: `start; printf 'a\r\n' >x.user-crlf; git add x.user-crlf; git commit -qm x; rm x.user-crlf; git checkout -q -- .; printf 'b\r\n' >>x.user-crlf; printf 'c\n' >>y.user-crlf`},
	{name: "folder of a repository", once: true, proves: "the whole repository comes along", script: `start; put dir/c`, project: "repo/dir"},
	{name: "start elsewhere", once: true, proves: "--from carries no uncommitted work", from: "v1", differs: true, notes: []string{`starts at "v1"`}, script: `start; git tag v1; put a second; save; put a third; put new`},
	{
		name: "start elsewhere with a repository within", once: true, proves: "--from is for the project's own repository", from: "rel-1", differs: true, notes: []string{`starts at "rel-1"`, "lib"},
		script: `start; git branch rel-1; put a second; save; git init -q -b main lib; cd lib; git config user.name a; git config user.email a@b; put l; save; put l second`,
	},
	{name: "start nowhere", once: true, proves: "--from names a commit", from: "nope", refused: gitgate.ErrNoCommit, script: `start`},
	{name: "start with an option", once: true, proves: "--from is no option of git's", from: "--help", refused: gitgate.ErrNoCommit, script: `start`},
	{
		name: "plain directory", once: true, proves: "a folder without git works as it is", notes: []string{"no git repository", "git init", "node_modules", `".env"`},
		script: `mkdir -p repo/src repo/node_modules/x; cd repo; put src/a; put 'odd "name'; put .env KEY=1; put node_modules/x/y; ln -s src/a link; ln -s /etc/shadow out; put run; chmod +x run`, leftOut: []string{".env", "node_modules/x/y"},
	},
	{name: "plain directory of repositories", once: true, proves: "the repositories in it land, the rest is files", notes: []string{"no git repository", "one", "two"}, script: `mkdir repo; cd repo; for r in one two; do (mkdir $r; cd $r; git init -q -b main; git config user.name a; git config user.email a@b; put x; save; put x second; put .env KEY=1); done; put readme`, leftOut: []string{"one/.env", "two/.env"}},
}

const dirtHere = `put a second; git add a; put a third; put new; rm dir/b`

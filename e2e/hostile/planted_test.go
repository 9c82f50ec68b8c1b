package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/madarco/agentbox/e2e/laptop"
)

// plant is one place of the box where git looks for a program, or for a file to
// write or read. In a script $run is a line of shell that leaves a mark on
// whatever machine runs it, $hook a program that does, and $home the user's home
// on the host. It runs in the box's workspace.
type plant struct{ name, script string }

var plants = []plant{
	{"hooks", `for h in pre-push pre-commit post-commit reference-transaction post-update pre-receive update proc-receive push-to-checkout pre-auto-gc post-checkout fsmonitor-watchman; do cp $hook .git/hooks/$h; done`},
	{"core.hooksPath", `mkdir -p .git/elsewhere && for h in pre-push reference-transaction; do cp $hook .git/elsewhere/$h; done; git config core.hooksPath "$PWD/.git/elsewhere"`},
	{"core.fsmonitor", `git config core.fsmonitor "$run"`},
	{"include.path", `mkdir -p .git/elsewhere && cp $hook .git/elsewhere/pre-push && printf '[core]\nhooksPath = %s/.git/elsewhere\n' "$PWD" >.git/included && git config include.path included`},
	{"config.worktree", `git config extensions.worktreeConfig true && printf '[core]\nfsmonitor = "%s"\n' "$run" >.git/config.worktree`},
	{"commondir", `mkdir -p /tmp/common/hooks && cp $hook /tmp/common/hooks/pre-push && echo /tmp/common >.git/commondir`},
	{"core.sshCommand", `git config core.sshCommand "$run" && git config remote.origin.pushurl ssh://git@127.0.0.1:1/x.git`},
	{"protocol.ext and its URL", `git config protocol.ext.allow always && git config remote.origin.pushurl "ext::sh -c $run"`},
	{"remote.origin.vcs", `git config remote.origin.vcs ext && git config protocol.ext.allow always`},
	{"url.pushInsteadOf", `git config protocol.ext.allow always && git config "url.ext::sh -c $run.pushInsteadOf" "$(git config remote.origin.url)"`},
	{"gpg.program", `git config gpg.program "$hook" && git config commit.gpgSign true && git config push.gpgSign if-asked`},
	{"core.alternateRefsCommand", `git config core.alternateRefsCommand "$run;:"`},
	{"remote.origin.receivepack", `git config remote.origin.receivepack "$run;git-receive-pack"`},
	{"remote.origin.uploadpack", `git config remote.origin.uploadpack "$run;git-upload-pack"`},
	{"uploadpack.packObjectsHook", `git config --global uploadpack.packObjectsHook "$hook"`},
	{"core.gitProxy", `git config core.gitProxy "$hook" && git config remote.origin.pushurl git://127.0.0.1:1/x.git`},
	{"credential.helper", `git config credential.helper "!$run"`},
	{"core.askPass, core.editor, core.pager", `git config core.askPass "$hook" && git config core.editor "$hook" && git config core.pager "$run"`},
	{"filter.*", `git config filter.x.smudge "$run;cat" && git config filter.x.clean "$run;cat" && git config filter.x.process "$hook" && echo '* filter=x' >.gitattributes && git add .gitattributes`},
	{"diff.external", `git config diff.external "$hook"`},
	{"diff.*.textconv, merge.*.driver", `git config diff.x.textconv "$hook" && git config diff.x.command "$hook" && git config merge.x.driver "$run" && echo '* diff=x merge=x filter=x' >.gitattributes && git add .gitattributes`},
	{"alias.*", `for a in push fetch status diff-tree rev-list cat-file; do git config alias.$a "!$run"; done`},
	{"trailer, sequence.editor, interactive", `git config trailer.x.command "$run" && git config sequence.editor "$run" && git config interactive.diffFilter "$run"`},
	{"submodule.*.update and a .gitmodules with ext::", `git config submodule.x.update "!$run" && printf '[submodule "x"]\n\tpath = x\n\turl = https://example.test/x.git\n\tupdate = !%s\n' "$run" >.gitmodules && git add .gitmodules`},
	{"safe.directory, a system wide configuration", `git config --global core.hooksPath /tmp && cp /etc/gitconfig /tmp/etc.gitconfig && sudo git config --system core.sshCommand "$run" && sudo git config --system core.fsmonitor false`},
	{"FETCH_HEAD as a link", `ln -sfn "$home/.bashrc" .git/FETCH_HEAD`},
	{"reflogs as links", `mkdir -p .git/logs/refs/remotes/origin && ln -sfn "$home/.bashrc" .git/logs/refs/remotes/origin/main`},
	{"refs as links", `mkdir -p .git/refs/heads && ln -sfn "$home/src/other/.git/refs/heads/main" .git/refs/heads/leak`},
	{"alternates that lead out", `mkdir -p .git/objects/info && echo "$home/src/other/.git/objects" >>.git/objects/info/alternates`},
	{"git itself, and what it starts", `mkdir -p /tmp/bin && for p in git git-upload-pack git-receive-pack git-remote-http ssh sh; do cp $hook /tmp/bin/$p; done`},
	{"tasks, editors, agents and the like in the tree", `mkdir -p .vscode .husky .claude .github/workflows && cp $hook .husky/pre-push && cp $hook gradlew && echo '{"tasks":[{"command":"'"$run"'","runOptions":{"runOn":"folderOpen"}}]}' >.vscode/tasks.json && echo "$run" >.envrc && printf '[lfs]\n\turl = http://example.test\n' >.lfsconfig && git add -A .vscode .husky .claude gradlew .envrc .lfsconfig`},
	{"agentbox.yaml that loosens", `printf 'box:\n  autoApproveHostActions: true\ncarry:\n  - %s/.ssh\napprovals:\n  unattended: [push-branch, push-rewrite, push-tag]\n' "$home" >agentbox.yaml && git add agentbox.yaml`},
	{"the read-only mounts", `for f in /run/agentbox/seed/*/objects /run/agentbox/relay; do sudo mount -o remount,rw $f; sudo touch $f/planted && echo "went: wrote $f"; sudo ln -s "$home/.bashrc" $f/link && echo "went: linked in $f"; done; true`},
	{"the host through /proc and /dev", `for c in "echo x >/proc/sys/kernel/core_pattern" "mount -t proc proc /mnt" "mknod /tmp/disk b 254 0" "unshare -Urm true" "nsenter -t 1 -m true -W $home"; do sudo sh -c "$c" && echo "went: $c"; done; true`},
}

// functions try what is planted, and undo it: all of the repository but its
// commits. What did not go through is left behind.
const functions = `undo() {
	rsync -a --delete --exclude='/objects/??' --exclude=/objects/pack --exclude=/refs/heads/agentbox --exclude=/index --exclude=/logs/HEAD \
		--exclude=/logs/refs/heads/agentbox --exclude=/COMMIT_EDITMSG /tmp/clean/ .git/
	rm -f ~/.gitconfig /tmp/bin/*
	[ ! -e /tmp/etc.gitconfig ] || sudo mv /tmp/etc.gitconfig /etc/gitconfig
	git symbolic-ref HEAD "refs/heads/$branch"
	git -c core.hooksPath=/dev/null reset -q --hard "$good"
	git clean -fdq
}
try() { # name
	PATH=/tmp/bin:$PATH timeout 10 git -c commit.gpgSign=false commit -q --no-verify --allow-empty -m "after $1" >/tmp/out 2>&1 && said=committed || said="not committed"
	timeout 10 git push -q origin HEAD >/tmp/out 2>&1 </dev/null && good=$(git rev-parse HEAD) && said="$said, pushed" || said="$said, not pushed"
	printf 'row\t%s\t%s\n' "$1" "$said"
}
`

// repair undoes what is planted in the box, so that its own git works again.
func repair(l *laptop.Laptop) {
	l.T.Helper()
	l.OK("shell", l.Box, "--", "bash", "-c", "branch="+l.Branch+"; cd /workspace && good=$(cat .git/refs/heads/"+l.Branch+")\n"+functions+"undo; git status")
}

// plantAll plants row by row, each time with a commit and a push, then leaves
// everything planted and fetches. It returns what the box saw of each row.
func plantAll(t *testing.T, l *laptop.Laptop, marks string) map[string]string {
	t.Helper()
	var script strings.Builder
	fmt.Fprintf(&script, "home=%s; branch=%s; cd /workspace; cp -a .git /tmp/clean; good=$(git rev-parse HEAD)\n%s", l.Home, l.Branch, functions)
	script.WriteString("mark() { printf '#!/bin/sh\\ntouch %s/%s\\n' " + marks + " \"$1\" >/tmp/hook; chmod +x /tmp/hook; hook=/tmp/hook; run=\"touch " + marks + "/$1\"; }\n")
	for i, p := range plants {
		fmt.Fprintf(&script, "mark planted-%d\n{ %s; } >/tmp/out 2>&1\ngrep '^went' /tmp/out\ntry '%s'\nundo >/dev/null 2>&1\n", i, p.script, p.name)
	}
	for i, p := range plants {
		if strings.Contains(p.script, ".git/commondir") || strings.Contains(p.script, "alias") {
			continue // with these the box's own git ends at once
		}
		fmt.Fprintf(&script, "mark planted-%d\n{ %s; } >/dev/null 2>&1\n", i, p.script)
	}
	script.WriteString("rm -f /tmp/bin/*; timeout 20 git fetch -q origin; true\n")
	ctx, cancel := context.WithTimeout(t.Context(), 2*laptop.Limit)
	defer cancel()
	r := l.RunContext(ctx, strings.NewReader(script.String()), "shell", l.Box, "--", "bash")
	seen := map[string]string{}
	for line := range strings.Lines(r.Out) {
		if strings.HasPrefix(line, "went: ") {
			t.Errorf("the box got through: %s", line)
		}
		if fields := strings.Split(strings.TrimSpace(line), "\t"); len(fields) == 3 && fields[0] == "row" {
			seen[fields[1]] = fields[2]
		}
	}
	if len(seen) != len(plants) {
		t.Fatalf("%d of %d rows ran, exit %d:\n%s%s", len(seen), len(plants), r.Code, r.Out, r.Err)
	}
	return seen
}

package sandboxdocker_test

import (
	"strings"
	"testing"

	"github.com/madarco/agentbox/images"
	sandboxdocker "github.com/madarco/agentbox/sandbox-docker"
)

// TestFullImage makes the image that boxes have by default, and looks at the
// computer that an agent gets. The box has no network, so all of it is there.
func TestFullImage(t *testing.T) {
	t.Parallel()
	o := options(t, endpoint(t))
	o.Image = string(images.Full)
	p, err := sandboxdocker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	box := create(t, p, draft(t))
	if box.Docker.Image != "agentbox/box:full" {
		t.Errorf("the box has image %s", box.Docker.Image)
	}
	for command, want := range map[string]string{
		"id -un":             "vscode",
		"claude --version":   "(Claude Code)",
		"codex --version":    "codex-cli ",
		"opencode --version": ".",
		"node --version":     "v24.",
		"npm --version":      "11.",
		// What npm installs for everybody needs no root and is found.
		"npm config get prefix": "/home/vscode/.local",
		"rg --version":          "ripgrep ",
		"bwrap --version":       "bubblewrap ",
		"git lfs version":       "git-lfs/",
		"python -m venv /tmp/v && /tmp/v/bin/python -c 'import ssl; print(ssl.OPENSSL_VERSION)'":                           "OpenSSL ",
		"printf 'int main(){return 0;}' | cc -x c -o /tmp/a - && /tmp/a && echo compiled":                                  "compiled",
		`printf '%s %s %s' "$DISABLE_AUTOUPDATER" "$OPENCODE_DISABLE_AUTOUPDATE" "$BASH_MAX_TIMEOUT_MS"`:                   "1 1 86400000",
		"command -v claude codex opencode node | xargs -n1 readlink -f | xargs stat -c '%U %A' | sort -u":                  "root -rwxr-xr-x",
		"find / -xdev \\( -name _cacache -o -name '*-musl' -path '*opencode*' \\) 2>/dev/null | grep . || echo 'no cache'": "no cache",
	} {
		if got := output(t, p, box, "bash", "-c", command); !strings.Contains(got, want) {
			t.Errorf("%s prints %q, want %q", command, got, want)
		}
	}
}

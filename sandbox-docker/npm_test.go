package sandboxdocker

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
)

func TestNPMRegistryIsTheUsers(t *testing.T) {
	const mine, other = "https://npm.example/repo/", "http://10.0.0.1:4873"
	for name, c := range map[string]struct {
		environ []string
		files   map[string]string
		want    string
		bad     bool
	}{
		"nothing set":            {},
		"a variable":             {environ: []string{"PATH=/bin", "NPM_CONFIG_REGISTRY=" + mine}, want: mine},
		"npm's own spelling":     {environ: []string{"npm_config_registry=" + other}, want: other},
		"an empty variable":      {environ: []string{"NPM_CONFIG_REGISTRY="}, files: map[string]string{"/home/me/.npmrc": "registry=" + mine}, want: mine},
		"the user's npmrc":       {files: map[string]string{"/home/me/.npmrc": "; mine\nfund=false\n registry = \"" + mine + "\" \n"}, want: mine},
		"the machine's npmrc":    {files: map[string]string{"/home/me/.npmrc": "fund=false\n", "/etc/npmrc": "registry=" + other}, want: other},
		"another npmrc":          {environ: []string{"NPM_CONFIG_USERCONFIG=/n"}, files: map[string]string{"/n": "registry=" + mine, "/home/me/.npmrc": "registry=" + other}, want: mine},
		"the variable first":     {environ: []string{"NPM_CONFIG_REGISTRY=" + mine}, files: map[string]string{"/home/me/.npmrc": "registry=" + other}, want: mine},
		"a scope's registry":     {files: map[string]string{"/home/me/.npmrc": "@shop:registry=" + mine}},
		"a section":              {files: map[string]string{"/home/me/.npmrc": "[x]\nregistry=" + mine}},
		"a login":                {environ: []string{"NPM_CONFIG_REGISTRY=https://me:secret@npm.example/"}, bad: true},
		"a variable in an npmrc": {files: map[string]string{"/home/me/.npmrc": "registry=${NPM_MIRROR}"}, bad: true},
		"a file":                 {environ: []string{"NPM_CONFIG_REGISTRY=file:///tmp/x"}, bad: true},
		"words":                  {environ: []string{"NPM_CONFIG_REGISTRY=--unsafe"}, bad: true},
	} {
		read := func(path string) ([]byte, error) {
			text, found := c.files[path]
			if !found {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		}
		got, err := npmRegistry(c.environ, read, "/home/me")
		if got != c.want || (err != nil) != c.bad || c.bad && !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the login: %v", name, err)
		}
	}
	denied := func(string) ([]byte, error) { return nil, fs.ErrPermission }
	if _, err := npmRegistry(nil, denied, ""); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("an npmrc that cannot be read: %v", err)
	}
}

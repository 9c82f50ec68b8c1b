package sandboxdocker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/madarco/agentbox/core/provider"
	sandboxdocker "github.com/madarco/agentbox/sandbox-docker"
)

func TestEndpointIsTheOneOfTheUsersDocker(t *testing.T) {
	home := t.TempDir()
	write := func(text string, parts ...string) {
		t.Helper()
		path := filepath.Join(append([]string{home}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id := func(name string) string {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:])
	}
	write(`{"currentContext":"mine","auths":{}}`, ".docker", "config.json")
	write(`{"Name":"mine","Endpoints":{"docker":{"Host":"unix:///mine.sock"}}}`, ".docker", "contexts", "meta", id("mine"), "meta.json")
	write(`{"Name":"far","Endpoints":{"docker":{"Host":"ssh://far"}}}`, ".docker", "contexts", "meta", id("far"), "meta.json")
	write(`{"currentContext":"default"}`, "other", "config.json")
	write(`nonsense`, "broken", "config.json")

	for name, c := range map[string]struct {
		env  map[string]string
		host string
		err  bool
		kind error
	}{
		"current context":  {nil, "unix:///mine.sock", false, nil},
		"DOCKER_HOST":      {map[string]string{"DOCKER_HOST": "unix:///host.sock", "DOCKER_CONTEXT": "mine"}, "unix:///host.sock", false, nil},
		"DOCKER_CONTEXT":   {map[string]string{"DOCKER_CONTEXT": "default"}, "", false, nil},
		"DOCKER_CONFIG":    {map[string]string{"DOCKER_CONFIG": filepath.Join(home, "other")}, "", false, nil},
		"no configuration": {map[string]string{"DOCKER_CONFIG": filepath.Join(home, "none")}, "", false, nil},
		"ssh context":      {map[string]string{"DOCKER_CONTEXT": "far"}, "", true, provider.ErrUnsupported},
		"ssh host":         {map[string]string{"DOCKER_HOST": "ssh://far"}, "", true, provider.ErrUnsupported},
		"unknown context":  {map[string]string{"DOCKER_CONTEXT": "gone"}, "", true, os.ErrNotExist},
		"broken":           {map[string]string{"DOCKER_CONFIG": filepath.Join(home, "broken")}, "", true, nil},
		"no certificates":  {map[string]string{"DOCKER_HOST": "tcp://far:2376", "DOCKER_CERT_PATH": home}, "", true, os.ErrNotExist},
	} {
		at, err := sandboxdocker.Endpoint(func(key string) string { return c.env[key] }, home)
		if (err != nil) != c.err || c.kind != nil && !errors.Is(err, c.kind) || err == nil && at.Host != c.host {
			t.Errorf("%s: Endpoint = %q, %v", name, at.Host, err)
		}
	}
}

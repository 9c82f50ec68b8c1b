package core_test

import (
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
)

func TestHoldsSecret(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"-----BEGIN OPENSSH PRIVATE KEY-----\n", "token: ghp_" + strings.Repeat("a1", 18), "AKIA" + strings.Repeat("Z", 16), "-----BEGIN PGP PRIVATE KEY BLOCK-----",
	} {
		if !core.HoldsSecret([]byte(s)) {
			t.Errorf("%q passes", s)
		}
	}
	for _, s := range []string{"", "-----BEGIN PUBLIC KEY-----", "ghp_short", "task-antelope", "plain text"} {
		if core.HoldsSecret([]byte(s)) {
			t.Errorf("%q is taken for a secret", s)
		}
	}
}

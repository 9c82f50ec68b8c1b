package core

import (
	"path"
	"strings"
)

// secretFolders hold credentials whatever their files are called.
var secretFolders = map[string]bool{".ssh": true, ".aws": true, ".gnupg": true, ".kube": true, ".docker": true, ".azure": true, ".gcloud": true}

var (
	// secretNames match a folded base name.
	secretNames = pattern(`^(\.env([._-].*)?|\.envrc|\.?credentials(\.json)?|\.git-credentials|\.npmrc|\.netrc|_netrc|\.pgpass|\.htpasswd|\.pypirc|\.dockercfg|service[-_]account.*\.json|id_(rsa|dsa|ecdsa|ed25519).*|.*\.(pem|key|pfx|p12|keystore|jks|ppk|tfstate|kdbx)|.*_history|auth\.json|secrets\.(ya?ml|json|env|toml))$`)
	// publicNames are the exceptions: public halves and examples.
	publicNames = pattern(`^(.*\.pub|\.env\.(example|sample|template|dist))$`)
)

// LooksSecret tells, from its slash-separated path alone, whether a file is
// likely to hold a credential. Case is ignored. It errs towards true: the
// answer leads to a question, never to silent loss.
func LooksSecret(file string) bool {
	folded := strings.ToLower(path.Clean(file))
	base := path.Base(folded)
	if publicNames().MatchString(base) {
		return false
	}
	dirs := strings.Split(path.Dir(folded), "/")
	for i, dir := range dirs {
		if secretFolders[dir] || dir == "gh" && i > 0 && dirs[i-1] == ".config" {
			return true
		}
	}
	return secretNames().MatchString(base)
}

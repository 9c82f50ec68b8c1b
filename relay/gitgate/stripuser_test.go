package gitgate

import "testing"

func TestAnAddressIsShownWithoutSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"https://token@host/r.git":            "https://host/r.git",
		"https://u:p@host/r.git":              "https://host/r.git",
		"https://host/r.git?private_token=s3": "https://host/r.git",
		"https://u:p@host/r.git?a=b@c#frag":   "https://host/r.git",
		"HTTP://host/r#s3":                    "HTTP://host/r",
		"https://u:p/w@host/r.git?x":          "https://host/r.git",
		"ssh://git:secret@host/r.git":         "ssh://git@host/r.git",
		"ssh://git@host/what?is=this":         "ssh://git@host/what?is=this",
		"git@host:r.git":                      "git@host:r.git",
		"/srv/odd?name.git":                   "/srv/odd?name.git",
		"https://host/r.git":                  "https://host/r.git",
	} {
		if got := stripUser(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}

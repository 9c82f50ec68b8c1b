package policy

import "github.com/madarco/agentbox/core"

// CI is what the remote would run on a push of the box's own branch: the files
// of CI that its default branch holds. The zero value is a remote without any.
type CI struct {
	// Digest names exactly these files with their contents. A consent is bound to
	// it, so other files are asked about anew.
	Digest string `json:"digest,omitempty"`
	// Count is how many files there are, Paths the first of them.
	Count int              `json:"count,omitempty"`
	Paths []core.Untrusted `json:"paths,omitempty"`
	// Agreed: the user has said yes to these files for this repository before.
	Agreed bool `json:"agreed,omitempty"`
}

// Unasked tells whether there is CI that the user has not agreed to yet.
func (c CI) Unasked() bool { return c.Digest != "" && !c.Agreed }

package images

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

// The folder holds agentbox-ctl-linux-amd64 and -arm64 in builds that carry
// them; a source tree has only the file that keeps the folder.
//
//go:embed all:ctl
var ctl embed.FS

// ErrNoCtl tells that this program was built without agentbox-ctl, as one that
// `go install` made is.
var ErrNoCtl = errors.New("agentbox-ctl is not part of this build")

// Ctl is the embedded agentbox-ctl for a Linux box of the given architecture,
// as Go spells it. The error wraps ErrNoCtl where there is none.
func Ctl(arch string) ([]byte, error) { return ctlFrom(ctl, arch) }

func ctlFrom(fsys fs.FS, arch string) ([]byte, error) {
	switch arch {
	case "amd64", "arm64":
	default:
		return nil, fmt.Errorf("agentbox-ctl for linux/%s: %w", arch, ErrNoCtl)
	}
	data, err := fs.ReadFile(fsys, "ctl/agentbox-ctl-linux-"+arch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("agentbox-ctl for linux/%s: %w", arch, ErrNoCtl)
	}
	return data, err
}

package sandboxdocker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"

	"github.com/madarco/agentbox/core"
)

const (
	ctlModule  = "github.com/madarco/agentbox/ctl"
	ctlPackage = ctlModule + "/cmd/agentbox-ctl"
)

var releasePattern = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+([.+-][0-9A-Za-z.+-]+)?$`)

// released tells whether a version is one that can be fetched by its name.
func released(version string) bool { return releasePattern.MatchString(version) }

// ctlVersion is the version of agentbox-ctl that goes with this program: the
// one that it was built with, else its own.
func ctlVersion(own string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == ctlModule && dep.Replace == nil {
				return dep.Version
			}
		}
	}
	return own
}

// buildCtl compiles agentbox-ctl at this program's own version, for a program
// that `go install` made and that therefore carries none.
func buildCtl(ctx context.Context, version, arch string, progress func(string)) ([]byte, error) {
	version = ctlVersion(version)
	if !released(version) {
		return nil, errors.New("this agentbox carries no agentbox-ctl and is no released version that has one to build; build it with scripts/build, or install a release")
	}
	compiler, err := program("go")
	if err != nil {
		return nil, fmt.Errorf("this agentbox carries no agentbox-ctl, and to build it: %w; install a release of agentbox, or Go", err)
	}
	dir, err := os.MkdirTemp("", "agentbox-ctl-")
	if err != nil {
		return nil, fmt.Errorf("build agentbox-ctl: %w", err)
	}
	defer os.RemoveAll(dir)
	module := fmt.Sprintf("module box\n\ngo 1.26\n\nrequire %s %s\n", ctlModule, version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
		return nil, fmt.Errorf("build agentbox-ctl: %w", err)
	}
	progress("build agentbox-ctl " + version)
	cmd := exec.CommandContext(ctx, compiler, "build", "-mod=mod", "-trimpath", "-buildvcs=false", "-o", "agentbox-ctl", ctlPackage)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	said := &lineWriter{emit: progress}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build agentbox-ctl %s: %w; the compiler said %s", version, err, core.Untrusted(said.tail()).QuoteMax(2000))
	}
	return os.ReadFile(filepath.Join(dir, "agentbox-ctl"))
}

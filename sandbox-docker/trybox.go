package sandboxdocker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/images"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// trial is what a container of a box's kind has to show from within: each line
// is a test of the shell, and its name.
const trial = `
test "$(id -u)" = 1000 || echo 'the box user (uid 1000)'
test "$(sed -n 's/^Seccomp:[^0-9]*//p' /proc/self/status)" = 2 || echo 'the filter of system calls'
touch /run/agentbox/doctor 2>/dev/null || echo 'the tmpfs at /run/agentbox'
test -e /run/agentbox/relay/doctor || echo 'the folder of the relay socket; is the state folder on a disk that the engine sees?'
! touch /run/agentbox/relay/other 2>/dev/null || echo 'mounting that folder read-only'
test "$(ls /sys/class/net | grep -vc '^lo$')" = 1 || echo 'a network of its own'
`

// tryBox makes a container as a box's is made, looks at it from within, and
// removes it.
func (p *Provider) tryBox(ctx context.Context) (found string, err error) {
	image, err := p.anyImage(ctx)
	if errors.Is(err, engine.ErrNotFound) {
		return "not tried: there is no box image; `agentbox prepare` makes it", nil
	}
	if err != nil {
		return "", err
	}
	relayDir, err := os.MkdirTemp(p.opts.StateDir, "doctor.")
	if err == nil {
		err = errors.Join(os.Chmod(relayDir, 0o755), os.WriteFile(filepath.Join(relayDir, "doctor"), nil, 0o644)) //nolint:gosec // what a box sees of the relay
	}
	if err != nil {
		return "", fmt.Errorf("make a folder for the try: %w", err)
	}
	defer os.RemoveAll(relayDir)

	id := core.NewBoxID()
	a := attempt{provider: p, step: steps(nil), mark: rand.Text(), req: provider.CreateRequest{Box: core.Box{ID: id, Name: core.BoxName("doctor-" + id)}}}
	settled, stop := settling(ctx)
	defer stop()
	defer func() {
		if gone := p.remove(settled, label(labelAttempt, a.mark)); gone != nil {
			err = errors.Join(err, gone)
		}
	}()
	if err := a.network(settled); err != nil {
		return "", err
	}
	options, err := sealed(plan{box: a.req.Box, image: image.ID, profile: profileFor(image.Labels), relayDir: relayDir, labels: a.labels()})
	if err != nil {
		return "", err
	}
	container, err := p.engine.CreateContainer(settled, options)
	if err == nil {
		err = p.engine.StartContainer(settled, container)
	}
	if err != nil {
		return "", err
	}
	return p.lookInto(ctx, container)
}

// lookInto runs the trial in a container.
func (p *Provider) lookInto(ctx context.Context, container string) (string, error) {
	said := capped.Buffer{Max: maxAnswer}
	code, err := p.engine.Exec(ctx, container, provider.ExecRequest{Argv: []string{"/bin/sh", "-c", trial}, User: BoxUser, WorkDir: "/", Stdout: &said})
	if err != nil {
		return "", err
	}
	if missing := strings.TrimSpace(said.String()); missing != "" || code != 0 {
		return "", fmt.Errorf("a box of this engine lacks: %s; boxes are not safe on it", core.Untrusted(strings.ReplaceAll(missing, "\n", ", ")).Quote())
	}
	return "a container started sealed, and is so from within", nil
}

// anyImage is a box image that is there, of whatever version.
func (p *Provider) anyImage(ctx context.Context) (image engine.Image, err error) {
	for _, flavour := range images.Flavours {
		image, err = p.engine.Image(ctx, p.opts.Repository+":"+string(flavour))
		if !errors.Is(err, engine.ErrNotFound) {
			break
		}
	}
	return image, err
}

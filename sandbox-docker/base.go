package sandboxdocker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/images"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// baseImage is what a build starts from.
type baseImage struct {
	ref string
	// complete: it has all packages, so that the build needs no network.
	complete bool
}

// bootstrapRepository names the bases that are made on this machine.
const bootstrapRepository = "agentbox/base"

// ensureBase finds the base of a recipe: one made here before, one that the
// engine has, one that the registry gives, else it makes one out of the
// distribution's packages.
func (p *Provider) ensureBase(ctx context.Context, recipe images.Recipe) (baseImage, error) {
	if recipe.Base != "" { // the user's choice stands alone
		return baseImage{ref: recipe.Base}, p.haveOrPull(ctx, recipe.Base)
	}
	packages, err := images.Packages(images.Flavours[0])
	if err != nil {
		return baseImage{}, err
	}
	b := hostBootstrap(os.ReadFile, packages)
	made := baseImage{ref: b.ref(), complete: true}
	unlock, err := p.lock(ctx, made.ref)
	if err != nil {
		return baseImage{}, err
	}
	defer unlock()
	if _, err := p.engine.Image(ctx, made.ref); !errors.Is(err, engine.ErrNotFound) {
		return made, err
	}
	pulled := p.haveOrPull(ctx, images.DefaultBase)
	if pulled == nil {
		return baseImage{ref: images.DefaultBase}, nil
	}
	if err := ctx.Err(); err != nil {
		return baseImage{}, err
	}
	p.opts.Progress(pulled.Error())
	path, err := program("mmdebstrap")
	if err != nil {
		return baseImage{}, fmt.Errorf("get a base for the box image: %w; to make one without a registry install mmdebstrap with `sudo apt-get install mmdebstrap` and try again", pulled)
	}
	return made, p.bootstrap(ctx, path, b)
}

func (p *Provider) haveOrPull(ctx context.Context, ref string) error {
	if _, err := p.engine.Image(ctx, ref); !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	return p.pull(ctx, ref)
}

// bootstrap is a run of mmdebstrap(1), which makes a root file system out of a
// distribution's packages.
type bootstrap struct {
	suite    string
	packages []string
	// sources is the host's own list of package sources, "" for mmdebstrap's
	// default; content is what it says now.
	sources string
	content []byte
}

// defaultSuite is the release that images.DefaultBase has.
const defaultSuite = "bookworm"

// hostBootstrap takes suite and sources from a Debian or Ubuntu host, whose
// mirrors and keys work, and else Debian's defaults.
func hostBootstrap(read func(string) ([]byte, error), packages []string) bootstrap {
	b := bootstrap{suite: defaultSuite, packages: packages}
	release, err := read("/etc/os-release")
	if err != nil {
		return b
	}
	values := map[string]string{}
	for line := range strings.Lines(string(release)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = strings.Trim(value, `"'`)
	}
	var candidates []string
	switch values["ID"] {
	case "debian", "ubuntu":
		candidates = []string{"/etc/apt/sources.list.d/" + values["ID"] + ".sources", "/etc/apt/sources.list"}
	}
	for _, path := range candidates {
		content, err := read(path)
		if err != nil || len(bytes.TrimSpace(content)) == 0 || values["VERSION_CODENAME"] == "" {
			continue
		}
		b.suite, b.sources, b.content = values["VERSION_CODENAME"], path, content
		return b
	}
	return b
}

// arguments of mmdebstrap; the tar goes to standard output.
func (b bootstrap) arguments() []string {
	args := []string{
		"--variant=minbase",
		"--format=tar",
		"--include=" + strings.Join(b.packages, ","),
	}
	// A box needs no manuals; the copyright files have to stay.
	for _, option := range []string{
		"path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright",
		"path-exclude=/usr/share/man/*", "path-exclude=/usr/share/locale/*",
	} {
		args = append(args, "--dpkgopt="+option)
	}
	args = append(args, b.suite, "-")
	if b.sources != "" {
		args = append(args, b.sources)
	}
	return args
}

// ref names the result by everything that it is made from.
func (b bootstrap) ref() string {
	sum := sha256.Sum256([]byte(strings.Join(b.arguments(), "\x00") + "\x00" + string(b.content)))
	return fmt.Sprintf("%s:%s-%x", bootstrapRepository, b.suite, sum[:6])
}

// tidyTime is how long a cancelled mmdebstrap may take to tidy up.
const tidyTime = 20 * time.Second

// bootstrap runs mmdebstrap and streams what it makes into the engine.
func (p *Provider) bootstrap(ctx context.Context, program string, b bootstrap) error {
	p.opts.Progress("make a base out of " + b.suite + "'s packages")
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(running, program, b.arguments()...)
	cmd.Dir = "/"
	// It unmounts and removes what it has made when the whole group is told to
	// end; told alone, it waits for its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = tidyTime
	said := &lineWriter{emit: p.opts.Progress}
	cmd.Stderr = said
	from, to := io.Pipe()
	cmd.Stdout = to
	ended := make(chan error, 1)
	go func() {
		err := cmd.Run()
		to.CloseWithError(err) // the engine takes nothing that did not end well
		ended <- err
	}()
	imported := p.engine.Import(ctx, from, b.ref())
	cancel()
	from.CloseWithError(io.ErrClosedPipe)
	err := <-ended
	if ctx.Err() != nil && imported != nil {
		return fmt.Errorf("make the base image: %w", ctx.Err())
	}
	if err != nil && imported != nil {
		return fmt.Errorf("make the base image with %s: %w; it said %s", program, err, core.Untrusted(said.tail()).QuoteMax(2000))
	}
	return imported
}

// lineWriter hands on whole lines and keeps the last few.
type lineWriter struct {
	emit func(string)
	part []byte
	last []string
}

const keptLines = 8

func (w *lineWriter) Write(p []byte) (int, error) {
	w.part = append(w.part, p...)
	for {
		end := bytes.IndexAny(w.part, "\r\n")
		if end < 0 {
			break
		}
		if line := strings.TrimSpace(string(w.part[:end])); line != "" {
			w.last = append(w.last[max(0, len(w.last)-keptLines+1):], line)
			w.emit(line)
		}
		w.part = w.part[end+1:]
	}
	w.part = w.part[max(0, len(w.part)-4096):]
	return len(p), nil
}

func (w *lineWriter) tail() string { return strings.Join(append(w.last, string(w.part)), "\n") }

// systemDirs are searched before PATH, which a project's environment may have
// changed.
var systemDirs = []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/go/bin"}

// program finds a program of the host outside the folder that the user is in.
func program(name string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	for _, dir := range slices.Concat(systemDirs, filepath.SplitList(os.Getenv("PATH"))) {
		path := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) || within(here, path) {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s: %w", name, exec.ErrNotFound)
}

// within tells whether path lies below dir. At the root nothing does.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return dir != "/" && err == nil && filepath.IsLocal(rel)
}

// Package config reads the user's own configuration, config.yaml in the state
// folder. Nothing of a project or a box can change it.
//
// Invariants:
//   - A key that is not known is a warning, a value of the wrong type an error.
//   - No key can let a program answer what a person must see.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
)

// maxFile bounds the file in bytes.
const maxFile = 1 << 20

// Config is what the user set.
type Config struct {
	// Unattended are the classes of requests that `agent approve` accepts
	// without a terminal, key approvals.unattended.
	Unattended []policy.Class
	// LandingBudget is how many bytes a box may land in its life before the user
	// is asked, key landing.budget; DiskReserve how many bytes of disk stay free
	// for the user, key landing.reserve. Zero means the default.
	LandingBudget, DiskReserve int64
	// MaxPack is how large what a box sends at once may be before the user is
	// asked, key push.maxPack. Zero means the default.
	MaxPack int64
	// Image is the image of boxes that ask for none, a flavour of the box image
	// or a reference; key box.image.
	Image string
	// NetworkPool is the IPv4 range that boxes get their networks from, key
	// box.networkPool. Invalid means the default.
	NetworkPool netip.Prefix
	// Warnings are about keys that this version does not know.
	Warnings []string
}

// Path is the file of a home.
func Path(home core.Home) string { return filepath.Join(string(home), "config.yaml") }

// Load reads the user's configuration; without a file it is empty.
func Load(home core.Home) (Config, error) {
	f, err := os.Open(Path(home))
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("open the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	if len(data) > maxFile {
		return Config{}, fmt.Errorf("configuration %s: %w: larger than %d bytes", Path(home), core.ErrInvalid, maxFile)
	}
	c, err := parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", Path(home), err)
	}
	return c, nil
}

func parse(data []byte) (Config, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return Config{}, fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	var c Config
	approvals, err := section(doc, "approvals")
	if err != nil {
		return Config{}, err
	}
	box, err := section(doc, "box")
	if err != nil {
		return Config{}, err
	}
	landing, err := section(doc, "landing")
	if err != nil {
		return Config{}, err
	}
	push, err := section(doc, "push")
	if err != nil {
		return Config{}, err
	}
	c.warnUnknown("", doc, "approvals", "box", "landing", "push")
	c.warnUnknown("push.", push, "maxPack")
	c.warnUnknown("landing.", landing, "budget", "reserve")
	c.warnUnknown("approvals.", approvals, "unattended")
	c.warnUnknown("box.", box, "image", "networkPool")
	c.Unattended, err = classes(approvals["unattended"])
	if err != nil {
		return Config{}, fmt.Errorf("approvals.unattended: %w", err)
	}
	if c.LandingBudget, err = size(landing["budget"]); err != nil {
		return Config{}, fmt.Errorf("landing.budget: %w", err)
	}
	if c.DiskReserve, err = size(landing["reserve"]); err != nil {
		return Config{}, fmt.Errorf("landing.reserve: %w", err)
	}
	if c.MaxPack, err = size(push["maxPack"]); err != nil {
		return Config{}, fmt.Errorf("push.maxPack: %w", err)
	}
	c.Image, err = word(box["image"])
	if err != nil {
		return Config{}, fmt.Errorf("box.image: %w", err)
	}
	if c.NetworkPool, err = pool(box["networkPool"]); err != nil {
		return Config{}, fmt.Errorf("box.networkPool: %w", err)
	}
	return c, nil
}

func section(doc map[string]any, key string) (map[string]any, error) {
	v, ok := doc[key]
	if !ok || v == nil {
		return nil, nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: %w: it holds keys", key, core.ErrInvalid)
	}
	return m, nil
}

// word reads a value that is one word; "" where the key is not set.
func word(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	s, ok := v.(string)
	if !ok || s == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return "", fmt.Errorf("%w: it is one word", core.ErrInvalid)
	}
	return s, nil
}

// pool reads a range of addresses with room for networks of boxes, which are a
// /28 each; the zero Prefix where nothing is said.
func pool(v any) (netip.Prefix, error) {
	if v == nil {
		return netip.Prefix{}, nil
	}
	s, _ := v.(string)
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() || p.Bits() > 28 {
		return netip.Prefix{}, fmt.Errorf("%w: it is an IPv4 range of at least a /28, like 10.64.0.0/18", core.ErrInvalid)
	}
	return p.Masked(), nil
}

var (
	sizePattern = regexp.MustCompile(`^([1-9][0-9]{0,5}) ?([MGT]B)$`)
	sizeUnits   = map[string]int64{"MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
)

// size reads an amount of bytes such as 2GB; zero where nothing is said.
func size(v any) (int64, error) {
	if v == nil {
		return 0, nil
	}
	s, ok := v.(string)
	m := sizePattern.FindStringSubmatch(s)
	if !ok || m == nil {
		return 0, fmt.Errorf("%w: it is a size like 500MB or 2GB", core.ErrInvalid)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	return n * sizeUnits[m[2]], nil
}

func classes(v any) ([]policy.Class, error) {
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%w: it is a list of classes, %v", core.ErrInvalid, policy.Classes)
	}
	var out []policy.Class
	for _, item := range list {
		s, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("%w: a class is a word, one of %v", core.ErrInvalid, policy.Classes)
		}
		class, err := policy.ParseClass(s)
		if err != nil {
			return nil, err
		}
		out = append(out, class)
	}
	return out, nil
}

func (c *Config) warnUnknown(prefix string, doc map[string]any, known ...string) {
	for key := range doc {
		if !slices.Contains(known, key) {
			c.Warnings = append(c.Warnings, "unknown key "+core.Untrusted(prefix+key).Quote()+" in config.yaml")
		}
	}
	slices.Sort(c.Warnings)
}

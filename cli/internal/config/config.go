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
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/integrations"
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
	// AutoApprove answers for boxes made from now on what need not be a person's, key
	// box.autoApproveHostActions; AutoApproveSafe what stays in the project and on
	// the box's branch, key box.autoApproveSafeHostActions, true where not set.
	AutoApprove, AutoApproveSafe bool
	// ApprovalTimeout is how long a question stands, key approvals.timeout. Zero
	// means the default.
	ApprovalTimeout time.Duration
	// Integrations are what the user set about services, by name; see
	// Config.Integration.
	Integrations map[string]Integration
	// PlaneURL is the control plane that boxes, their events and what waits for
	// the user are shown on, key relay.controlPlaneUrl.
	PlaneURL string
	// Autopause lets the relay pause boxes that have been idle for IdleBefore while
	// more than MaxRunningBoxes run; keys autopause.enabled, autopause.idleMinutes
	// and autopause.maxRunningBoxes, by default yes, 5 minutes and 5 boxes.
	Autopause       bool
	IdleBefore      time.Duration
	MaxRunningBoxes int
	// Warnings are about keys that this version does not know.
	Warnings []string
}

// Path is the file of a home.
func Path(home core.Home) string { return filepath.Join(string(home), "config.yaml") }

// Load reads the user's configuration; without a file nothing is set.
func Load(home core.Home) (Config, error) {
	f, err := os.Open(Path(home))
	if errors.Is(err, fs.ErrNotExist) {
		return parse(nil)
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

// keys are all that can be set, each with what takes its value. A value that is
// not there, or null, is not set.
var keys = map[string]func(*Config, any) error{
	"approvals.timeout":              func(c *Config, v any) (err error) { c.ApprovalTimeout, err = duration(v); return },
	"approvals.unattended":           func(c *Config, v any) (err error) { c.Unattended, err = classes(v); return },
	"autopause.enabled":              func(c *Config, v any) (err error) { c.Autopause, err = yes(v); return },
	"autopause.idleMinutes":          func(c *Config, v any) (err error) { c.IdleBefore, err = minutes(v); return },
	"autopause.maxRunningBoxes":      func(c *Config, v any) (err error) { c.MaxRunningBoxes, err = count(v); return },
	"box.autoApproveHostActions":     func(c *Config, v any) (err error) { c.AutoApprove, err = yes(v); return },
	"box.autoApproveSafeHostActions": func(c *Config, v any) (err error) { c.AutoApproveSafe, err = yes(v); return },
	"box.image":                      func(c *Config, v any) (err error) { c.Image, err = word(v); return },
	"box.networkPool":                func(c *Config, v any) (err error) { c.NetworkPool, err = pool(v); return },
	"landing.budget":                 func(c *Config, v any) (err error) { c.LandingBudget, err = size(v); return },
	"landing.reserve":                func(c *Config, v any) (err error) { c.DiskReserve, err = size(v); return },
	"relay.controlPlaneUrl":          func(c *Config, v any) (err error) { c.PlaneURL, err = word(v); return },
	"push.maxPack":                   func(c *Config, v any) (err error) { c.MaxPack, err = size(v); return },
}

func init() {
	for _, s := range integrations.All() {
		integrationKeys(s)
	}
}

func parse(data []byte) (Config, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return Config{}, fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	c := Config{AutoApproveSafe: true, Autopause: true, MaxRunningBoxes: 5, IdleBefore: 5 * time.Minute}
	if err := c.take("", doc); err != nil {
		return Config{}, err
	}
	slices.Sort(c.Warnings)
	return c, nil
}

// take sets what a section holds, and the sections in it.
func (c *Config) take(prefix string, section map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(section)) {
		key, v := prefix+name, section[name]
		set, known := keys[key]
		inner, nested := v.(map[string]any)
		var err error
		switch {
		case known && v != nil:
			if err = set(c, v); err != nil {
				err = fmt.Errorf("%s: %w", key, err)
			}
		case known:
		case !isSection(key):
			c.Warnings = append(c.Warnings, "unknown key "+core.Untrusted(key).Quote()+" in config.yaml")
		case nested:
			err = c.take(key+".", inner)
		case v != nil:
			err = fmt.Errorf("%s: %w: it holds keys", key, core.ErrInvalid)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isSection(key string) bool {
	for known := range keys {
		if strings.HasPrefix(known, key+".") {
			return true
		}
	}
	return false
}

func yes(v any) (bool, error) {
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%w: it is true or false", core.ErrInvalid)
	}
	return b, nil
}

// count reads a number of things, at least one.
func count(v any) (int, error) {
	n, ok := v.(uint64)
	if !ok || n < 1 || n > 1_000_000 {
		return 0, fmt.Errorf("%w: it is a whole number from 1", core.ErrInvalid)
	}
	return int(n), nil //nolint:gosec // bounded above
}

func minutes(v any) (time.Duration, error) {
	n, err := count(v)
	return time.Duration(n) * time.Minute, err
}

// duration reads a span of time such as 90m or 24h, from a minute to 30 days.
func duration(v any) (time.Duration, error) {
	s, _ := v.(string)
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Minute || d > 30*24*time.Hour {
		return 0, fmt.Errorf("%w: it is a time like 90m or 24h, from a minute to 720h", core.ErrInvalid)
	}
	return d, nil
}

// word reads a value that is one word.
func word(v any) (string, error) {
	s, ok := v.(string)
	if !ok || s == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return "", fmt.Errorf("%w: it is one word", core.ErrInvalid)
	}
	return s, nil
}

// pool reads a range of addresses with room for networks of boxes, which are a
// /28 each.
func pool(v any) (netip.Prefix, error) {
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

// size reads an amount of bytes such as 2GB.
func size(v any) (int64, error) {
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

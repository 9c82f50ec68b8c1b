package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/integrations"
)

// Integration is what the user set about a service: for all projects, and for
// each that has an entry, by its folder.
type Integration struct {
	ForAll   IntegrationSetting
	Projects map[string]IntegrationSetting
}

// IntegrationSetting is one such word. Where it is about a project, what it does
// not set is as for all.
type IntegrationSetting struct {
	// Enabled is nil where it is not set.
	Enabled *bool
	// Scope is the destination that writes may go to unasked.
	Scope string
}

// Integration is what holds for a service in a project, whose folder is a real
// path: whether it is on, and the destination that writes may go to unasked.
func (c Config) Integration(service, project string) (enabled bool, scope string) {
	set := c.Integrations[service]
	here := set.ForAll
	for _, dir := range slices.Sorted(maps.Keys(set.Projects)) {
		own := set.Projects[dir]
		if real, err := filepath.EvalSymlinks(dir); err == nil && real == project || filepath.Clean(dir) == project {
			if own.Enabled != nil {
				here.Enabled = own.Enabled
			}
			if own.Scope != "" {
				here.Scope = own.Scope
			}
		}
	}
	return here.Enabled != nil && *here.Enabled, here.Scope
}

// integrationKeys adds the keys of a service.
func integrationKeys(s integrations.Service) {
	edit := func(change func(*Integration) error) func(*Config) error {
		return func(c *Config) error {
			if c.Integrations == nil {
				c.Integrations = map[string]Integration{}
			}
			set := c.Integrations[s.Name]
			err := change(&set)
			c.Integrations[s.Name] = set
			return err
		}
	}
	prefix := "integrations." + s.Name + "."
	for _, name := range []string{"enabled", s.Scope.Key} {
		keys[prefix+name] = func(c *Config, v any) error {
			return edit(func(i *Integration) error { return i.ForAll.take(s, name, v) })(c)
		}
	}
	keys[prefix+"projects"] = func(c *Config, v any) error {
		return edit(func(i *Integration) (err error) { i.Projects, err = projectSettings(s, v); return })(c)
	}
}

func (set *IntegrationSetting) take(s integrations.Service, name string, v any) error {
	switch name {
	case "enabled":
		on, err := yes(v)
		set.Enabled = &on
		return err
	case s.Scope.Key:
		scope, ok := v.(string)
		if !ok || !s.Scope.Valid(scope) {
			return fmt.Errorf("%w: it is %s", core.ErrInvalid, s.Scope.What)
		}
		set.Scope = scope
		return nil
	}
	return fmt.Errorf("%w: a project has enabled and %s, not %s", core.ErrInvalid, s.Scope.Key, core.Untrusted(name).Quote())
}

func projectSettings(s integrations.Service, v any) (map[string]IntegrationSetting, error) {
	list, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: it holds a folder of a project for each key", core.ErrInvalid)
	}
	all := map[string]IntegrationSetting{}
	for dir, inner := range list {
		words, ok := inner.(map[string]any)
		if !ok || !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("%s: %w: a project is its absolute folder, with enabled or %s", core.Untrusted(dir).Quote(), core.ErrInvalid, s.Scope.Key)
		}
		var set IntegrationSetting
		for name, value := range words {
			if err := set.take(s, name, value); err != nil {
				return nil, fmt.Errorf("%s: %w", core.Untrusted(dir).Quote(), err)
			}
		}
		all[dir] = set
	}
	return all, nil
}

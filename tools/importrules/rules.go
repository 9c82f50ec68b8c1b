package importrules

import (
	"fmt"
	"slices"
	"strings"
)

// siblings says which modules of ours a module may import besides core.
var siblings = map[string][]string{
	"core":           {},
	"integrations":   {},
	"relay":          {"integrations"},
	"ctl":            {"integrations", "relay"},
	"sandbox-core":   {"relay"},
	"sandbox-docker": {"sandbox-core", "images"},
	"sandbox-cloud":  {"sandbox-core", "images"},
	"images":         {},
	"controlplane":   {"integrations", "relay"},
	"cli":            {"integrations", "relay", "ctl", "sandbox-core", "sandbox-docker", "sandbox-cloud", "images", "controlplane", "docs"},
	"docs":           {},
}

// unbound modules are never published, so nothing may import them.
var unbound = []string{"tools", "e2e"}

// alsoMay widens siblings for single packages.
var alsoMay = map[string][]string{
	"sandbox-cloud/remotedocker": {"sandbox-docker/engine"},
}

// libraries may be imported only by the packages at or below these paths.
var libraries = map[string][]string{
	"github.com/creack/pty":                 {"ctl", "e2e", "cli/internal/session/sessiontest"},
	"github.com/dlclark/regexp2":            {"core"},
	"github.com/go-chi/chi":                 {"relay", "controlplane"},
	"github.com/jackc/pgx":                  {"controlplane"},
	"github.com/moby/moby":                  {"sandbox-docker"},
	"github.com/moby/profiles":              {"sandbox-docker"},
	"github.com/santhosh-tekuri/jsonschema": {"controlplane", "tools"},
	"modernc.org/sqlite":                    {"relay/store/sqlite"},
}

// quiet modules start no process and open no socket.
var quiet = []string{"core", "integrations"}

// quietImports are what the standard library offers for that.
var quietImports = []string{"net", "net/http", "net/rpc", "os/exec", "plugin", "syscall", "golang.org/x/sys"}

// unlinked says what all that a module builds must not contain, however deep.
var unlinked = map[string][]string{
	"controlplane": {
		"relay/gitgate", "relay/hostexec", "sandbox-core", "sandbox-docker", "sandbox-cloud", "images", "cli", "ctl",
		"github.com/creack/pty", "github.com/digitalocean/godo", "github.com/hetznercloud", "github.com/moby/moby",
	},
	"ctl": {
		"relay/gitgate", "relay/hostexec", "sandbox-core", "sandbox-docker", "sandbox-cloud", "images", "cli",
		"github.com/jackc/pgx", "github.com/moby/moby", "modernc.org/sqlite",
	},
	"relay": {"github.com/jackc/pgx", "github.com/moby/moby"},
}

// execless modules contain no package of ours that starts programs.
var execless = []string{"core", "integrations", "controlplane"}

// Check returns what breaks a rule, in sentences, in a stable order.
func Check(g Graph) []string {
	var found []string
	for _, p := range g.ours() {
		found = append(found, checkSiblings(g, p)...)
		found = append(found, checkLibraries(p)...)
		found = append(found, checkQuiet(p)...)
		found = append(found, checkLinks(g, p)...)
	}
	return append(found, checkCycles(g)...)
}

func checkSiblings(g Graph, p *Package) []string {
	if slices.Contains(unbound, p.Module) {
		return nil
	}
	allowed, known := siblings[p.Module]
	if !known {
		return []string{fmt.Sprintf("module %s has no row in the table of siblings", p.Module)}
	}
	var found []string
	for _, path := range slices.Concat(p.Imports, p.TestImports) {
		to := g.module(path)
		if to == "" || to == p.Module || to == "core" || slices.Contains(allowed, to) || within(path, alsoMay[p.Path]) {
			continue
		}
		found = append(found, fmt.Sprintf("%s imports %s: module %s may not use %s", p.Path, path, p.Module, to))
	}
	return found
}

func checkLibraries(p *Package) []string {
	var found []string
	for _, path := range p.Imports {
		for library, users := range libraries {
			if within(path, []string{library}) && !within(p.Path, users) {
				found = append(found, fmt.Sprintf("%s imports %s, which only %s may", p.Path, path, strings.Join(users, ", ")))
			}
		}
	}
	return found
}

func checkQuiet(p *Package) []string {
	if !slices.Contains(quiet, p.Module) {
		return nil
	}
	var found []string
	for _, path := range p.Imports {
		if slices.Contains(quietImports, path) || strings.HasPrefix(path, "golang.org/x/sys/") {
			found = append(found, fmt.Sprintf("%s imports %s: module %s starts no process and opens no socket", p.Path, path, p.Module))
		}
	}
	return found
}

func checkLinks(g Graph, p *Package) []string {
	var found []string
	via := g.links(p.Path)
	noExec := slices.Contains(execless, p.Module)
	for path := range via {
		if within(path, unlinked[p.Module]) {
			found = append(found, fmt.Sprintf("%s must not contain %s (%s)", p.Module, path, trail(via, path)))
		}
		if q := g[path]; noExec && q != nil && q.Module != "" && slices.Contains(q.Imports, "os/exec") {
			found = append(found, fmt.Sprintf("%s must not contain %s, which starts programs (%s)", p.Module, path, trail(via, path)))
		}
	}
	slices.Sort(found)
	return found
}

// checkCycles looks at modules, tests included, since each is downloaded whole.
func checkCycles(g Graph) []string {
	edges := map[string]map[string]bool{}
	for _, p := range g.ours() {
		for _, path := range slices.Concat(p.Imports, p.TestImports) {
			if to := g.module(path); to != "" && to != p.Module {
				if edges[p.Module] == nil {
					edges[p.Module] = map[string]bool{}
				}
				edges[p.Module][to] = true
			}
		}
	}
	var found []string
	for module := range edges {
		if reaches(edges, module, module) {
			found = append(found, fmt.Sprintf("module %s depends on itself through its siblings", module))
		}
	}
	slices.Sort(found)
	return found
}

func reaches(edges map[string]map[string]bool, from, to string) bool {
	seen := map[string]bool{}
	queue := []string{from}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		for m := range edges[next] {
			if m == to {
				return true
			}
			if !seen[m] {
				seen[m] = true
				queue = append(queue, m)
			}
		}
	}
	return false
}

// within tells whether path is one of the roots or lies below one.
func within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+"/")
	})
}

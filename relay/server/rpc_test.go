package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/wire"
)

func nobodyToAsk(c *Config) { c.Policy.Nobody = true }

// TestArgumentsOfGitAreAClosedTable covers extra refspecs, deletes, options
// that take a program, and remotes and paths that are none.
func TestArgumentsOfGitAreAClosedTable(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		params wire.GitParams
		exit   int
		pushed int
	}{
		"plain":                 {"git.push", wire.GitParams{Path: "/workspace"}, 0, 1},
		"below the repository":  {"git.push", wire.GitParams{Path: "/workspace/a/b"}, 0, 1},
		"quiet":                 {"git.push", wire.GitParams{Args: []string{"--quiet", "--force-with-lease"}}, 0, 1},
		"dry run":               {"git.push", wire.GitParams{Args: []string{"--dry-run"}}, 0, 0},
		"the recorded remote":   {"git.push", wire.GitParams{Remote: "origin"}, 0, 1},
		"refspec":               {"git.push", wire.GitParams{Args: []string{"agentbox/b1:main"}}, wire.ExitRefused, 0},
		"forced refspec":        {"git.push", wire.GitParams{Args: []string{"+HEAD:refs/heads/main"}}, wire.ExitRefused, 0},
		"delete":                {"git.push", wire.GitParams{Args: []string{"--delete", "main"}}, wire.ExitRefused, 0},
		"delete by refspec":     {"git.push", wire.GitParams{Args: []string{":main"}}, wire.ExitRefused, 0},
		"mirror":                {"git.push", wire.GitParams{Args: []string{"--mirror"}}, wire.ExitRefused, 0},
		"all, forced":           {"git.push", wire.GitParams{Args: []string{"--all", "--force"}}, wire.ExitRefused, 0},
		"tags":                  {"git.push", wire.GitParams{Args: []string{"--tags"}}, wire.ExitRefused, 0},
		"a program, glued":      {"git.push", wire.GitParams{Args: []string{"--receive-pack=touch x"}}, wire.ExitRefused, 0},
		"a program, split":      {"git.fetch", wire.GitParams{Args: []string{"--upload-pack", "touch x"}}, wire.ExitRefused, 0},
		"exec":                  {"git.push", wire.GitParams{Args: []string{"--exec=x"}}, wire.ExitRefused, 0},
		"option with value":     {"git.push", wire.GitParams{Args: []string{"-o", "x"}}, wire.ExitRefused, 0},
		"lease with a value":    {"git.push", wire.GitParams{Args: []string{"--force-with-lease=main"}}, wire.ExitRefused, 0},
		"option as remote":      {"git.fetch", wire.GitParams{Remote: "--upload-pack=touch x"}, wire.ExitRefused, 0},
		"url as remote":         {"git.push", wire.GitParams{Remote: "https://evil.example.com/x.git"}, wire.ExitRefused, 0},
		"this folder as remote": {"git.fetch", wire.GitParams{Remote: "."}, wire.ExitRefused, 0},
		"no repository there":   {"git.push", wire.GitParams{Path: "/etc"}, wire.ExitBadRequest, 0},
		"out by dots":           {"git.push", wire.GitParams{Path: "/workspace/../etc"}, wire.ExitBadRequest, 0},
		"option as branch":      {"git.push", wire.GitParams{Branch: "--all"}, wire.ExitBadRequest, 0},
		"nothing landed":        {"git.push", wire.GitParams{Branch: "feature"}, wire.ExitFailed, 0},
		"the landed commit":     {"git.push", wire.GitParams{OID: string(oidB)}, 0, 1},
		"another commit":        {"git.push", wire.GitParams{OID: string(oidC)}, wire.ExitFailed, 0},
		"fetch":                 {"git.fetch", wire.GitParams{Args: []string{"--prune", "--tags"}}, 0, 0},
		"pull":                  {"git.pull", wire.GitParams{Args: []string{"--ff-only"}}, 0, 0},
		"fetch, pull's flag":    {"git.fetch", wire.GitParams{Args: []string{"--ff-only"}}, wire.ExitRefused, 0},
		"fetch, push's params":  {"git.fetch", wire.GitParams{Force: true}, wire.ExitBadRequest, 0},
		"land only":             {"git.push", wire.GitParams{HostOnly: true}, 0, 0},
		"land only, remote":     {"git.push", wire.GitParams{HostOnly: true, Remote: "origin"}, wire.ExitBadRequest, 0},
		"land the commit":       {"git.push", wire.GitParams{HostOnly: true, OID: string(oidB)}, 0, 0},
		"land another commit":   {"git.push", wire.GitParams{HostOnly: true, OID: string(oidC), As: "topic"}, wire.ExitFailed, 0},
		"land on main":          {"git.push", wire.GitParams{HostOnly: true, Force: true, As: "main"}, wire.ExitDenied, 0},
		"land on another box's": {"git.push", wire.GitParams{HostOnly: true, Force: true, As: "agentbox/other"}, wire.ExitRefused, 0},
		"land on an option":     {"git.push", wire.GitParams{HostOnly: true, As: "-D"}, wire.ExitBadRequest, 0},
		"land on a refspec":     {"git.push", wire.GitParams{HostOnly: true, As: "x:y"}, wire.ExitBadRequest, 0},
		"land by dots":          {"git.push", wire.GitParams{HostOnly: true, As: "agentbox/../main"}, wire.ExitBadRequest, 0},
		"as without land only":  {"git.push", wire.GitParams{As: "x"}, wire.ExitBadRequest, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nobodyToAsk)
			code, env := g.rpc(tc.method, tc.params)
			if env.ExitCode != tc.exit || (code == 200) != (tc.exit == 0) {
				t.Errorf("status %d, envelope %+v; want exit code %d", code, env, tc.exit)
			}
			if tc.exit != 0 && strings.TrimSpace(env.Stderr) == "" {
				t.Error("it gives no reason")
			}
			if n := len(g.gate.pushed()); n != tc.pushed {
				t.Errorf("%d pushes ran; want %d", n, tc.pushed)
			}
			for _, u := range g.gate.pushed() {
				if u.Updates[0].Ref != "refs/heads/agentbox/one" {
					t.Errorf("pushed %+v", u)
				}
			}
		})
	}
}

func TestLandingThatDoesNotMoveTheBranchSaysSo(t *testing.T) {
	for _, status := range []string{wire.LandedDiverged, wire.LandedCheckedOut, wire.LandedHeld} {
		g := newRig(t)
		g.gate.landed = wire.Landing{Status: status, Detail: "kept in the gate"}
		if _, env := g.rpc("git.push", wire.GitParams{HostOnly: true}); env.ExitCode != wire.ExitFailed || !strings.Contains(env.Stderr, "kept in the gate") {
			t.Errorf("%s: %+v", status, env)
		}
	}
	for _, status := range []string{wire.Landed, wire.LandedRewritten, wire.LandedUpToDate} {
		g := newRig(t)
		g.gate.landed = wire.Landing{Status: status}
		if _, env := g.rpc("git.push", wire.GitParams{HostOnly: true}); env.ExitCode != 0 {
			t.Errorf("%s: %+v", status, env)
		}
	}
}

func TestUnknownParamsAreRefused(t *testing.T) {
	g := newRig(t)
	w := g.do("POST", "/rpc", `{"method":"git.push","params":{"path":"/workspace","hostMainRepo":"/etc"}}`)
	if w.Code != 500 || !strings.Contains(w.Body.String(), `"exitCode":64`) {
		t.Errorf("answers %d %s", w.Code, w.Body)
	}
}

func FuzzDispatch(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"path":"/workspace"}`, `{"args":["--force-with-lease"]}`, `{"hostOnly":true,"as":"main"}`, `{"branch":"main","force":true}`,
	} {
		f.Add("git.push", []byte(s))
		f.Add("git.fetch", []byte(s))
	}
	f.Fuzz(func(t *testing.T, method string, params []byte) {
		g := newRig(t, nobodyToAsk)
		env, err := g.Dispatch(t.Context(), g.box, wire.Request{Method: method, Params: params})
		if err == nil && env.ExitCode != 0 && env.Stderr == "" {
			t.Errorf("a refusal without a reason: %+v", env)
		}
		for _, p := range g.gate.pushed() {
			for _, u := range p.Updates {
				if u.Ref != "refs/heads/agentbox/one" || u.New != oidB || p.URL != remoteURL {
					t.Fatalf("unasked push of %+v to %s", u, p.URL)
				}
			}
		}
		for _, tip := range g.gate.lands {
			if tip != oidB {
				t.Fatalf("landed %s", tip)
			}
		}
	})
}

// TestNoTokenIsLeasedWithoutAnApp: nobody is asked for what could not be given.
func TestNoTokenIsLeasedWithoutAnApp(t *testing.T) {
	g := newRig(t)
	for params, why := range map[string]string{
		`{"path":"/workspace"}`:                     "no GitHub App",
		`{"path":"/etc"}`:                           "no repository",
		`{"path":"/workspace","repo":"acme/other"}`: "unknown",
		`{"path":["/workspace"]}`:                   "",
	} {
		env, err := g.Dispatch(t.Context(), g.box, wire.Request{Method: "git.lease-token", Params: json.RawMessage(params)})
		if err != nil || env.ExitCode != wire.ExitBadRequest || env.Stdout != "" || !strings.Contains(env.Stderr, why) {
			t.Errorf("%s: %+v, %v; want exit code %d with %q", params, env, err, wire.ExitBadRequest, why)
		}
	}
	if open, err := g.store.Approvals(t.Context(), "", wire.Pending); err != nil || len(open) > 0 {
		t.Errorf("asked %v, %v", open, err)
	}
}

package sandboxdocker

import (
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/images"
	"github.com/madarco/agentbox/sandbox-docker/engine"
	"github.com/madarco/agentbox/sandbox-docker/seccomp"
)

func TestBounds(t *testing.T) {
	all := engine.Info{MemTotal: 16 << 30, Memory: true, PIDs: true, CPUs: true}
	small, bare := all, engine.Info{MemTotal: 16 << 30}
	small.MemTotal = 3 << 30
	for name, c := range map[string]struct {
		want core.Limits
		info engine.Info
		got  core.Limits
		err  error
	}{
		"defaults":                  {core.Limits{}, all, core.Limits{MemoryBytes: 8 << 30, PIDs: 2048}, nil},
		"at least 2 GiB":            {core.Limits{}, small, core.Limits{MemoryBytes: 2 << 30, PIDs: 2048}, nil},
		"what was asked":            {core.Limits{MemoryBytes: 1 << 30, PIDs: 99, CPUs: 1.5}, all, core.Limits{MemoryBytes: 1 << 30, PIDs: 99, CPUs: 1.5}, nil},
		"no control groups":         {core.Limits{}, bare, core.Limits{}, nil},
		"memory without a group":    {core.Limits{MemoryBytes: 1}, bare, core.Limits{}, provider.ErrUnsupported},
		"processes without a group": {core.Limits{PIDs: 1}, bare, core.Limits{}, provider.ErrUnsupported},
		"CPUs without a group":      {core.Limits{CPUs: 1}, bare, core.Limits{}, provider.ErrUnsupported},
		"negative":                  {core.Limits{PIDs: -1}, all, core.Limits{}, core.ErrInvalid},
	} {
		got, err := bounds(c.want, c.info)
		if !errors.Is(err, c.err) || err == nil && got != c.got {
			t.Errorf("%s: bounds = %+v, %v; want %+v, %v", name, got, err, c.got, c.err)
		}
	}
}

func TestSealedRefusesOtherMounts(t *testing.T) {
	good := plan{
		box:     core.Box{ID: "b00000001", Name: "one", ProjectIndex: 3},
		profile: seccomp.Default, relayDir: "/relay",
		seeds:  map[string]string{"00112233445566ff": "/seed"},
		labels: map[string]string{labelID: "b00000001"},
	}
	options, err := sealed(good)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(options.Config.Env, "AGENTBOX_PROJECT_INDEX=3") {
		t.Errorf("environment = %q", options.Config.Env)
	}
	if len(good.labels) != 1 {
		t.Errorf("the caller's labels were changed: %v", good.labels)
	}
	for name, change := range map[string]func(*plan){
		"relative relay":  func(p *plan) { p.relayDir = "relay" },
		"unclean relay":   func(p *plan) { p.relayDir = "/relay/../etc" },
		"key that climbs": func(p *plan) { p.seeds = map[string]string{"../../../../etc": "/seed"} },
		"relative seed":   func(p *plan) { p.seeds = map[string]string{"00112233445566ff": "seed"} },
	} {
		p := good
		change(&p)
		if _, err := sealed(p); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	good.profile = "unconfined"
	if _, err := sealed(good); err == nil {
		t.Error("a box was planned without one of our profiles")
	}
}

func TestOnlyImagesWithChromiumGetItsProfile(t *testing.T) {
	for value, want := range map[string]seccomp.Name{"true": seccomp.Browser, "false": seccomp.Default, "": seccomp.Default, "unconfined": seccomp.Default} {
		if got := profileFor(map[string]string{images.LabelChromium: value}); got != want {
			t.Errorf("profile for %q = %s, want %s", value, got, want)
		}
	}
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestPickFindsFreeAddresses(t *testing.T) {
	pools := prefixes("10.1.0.0/26", "10.2.0.0/28")
	for name, c := range map[string]struct {
		taken []netip.Prefix
		want  string // "" for none
	}{
		"one left":          {prefixes("10.1.0.0/28", "10.1.0.16/28", "10.1.0.48/28"), "10.1.0.32/28"},
		"larger neighbours": {prefixes("10.1.0.0/27", "10.1.0.48/29"), "10.1.0.32/28"},
		"second pool":       {prefixes("10.1.0.0/16"), "10.2.0.0/28"},
		"nothing":           {prefixes("10.0.0.0/8"), ""},
	} {
		got, err := pick(pools, c.taken, "seed")
		if c.want == "" {
			if !errors.Is(err, errNoSubnet) {
				t.Errorf("%s: %v, %v; want errNoSubnet", name, got, err)
			}
		} else if err != nil || got.String() != c.want {
			t.Errorf("%s: pick = %v, %v; want %s", name, got, err, c.want)
		}
	}
	starts := map[netip.Prefix]bool{}
	for _, seed := range []string{"b00000001", "b00000002", "b00000003", "b00000004"} {
		got, err := pick(defaultPools, nil, seed)
		if err != nil || got.Bits() != 28 || !defaultPools[0].Overlaps(got) {
			t.Fatalf("pick(%s) = %v, %v", seed, got, err)
		}
		starts[got] = true
	}
	if len(starts) < 3 {
		t.Errorf("four boxes start at %v", starts)
	}
}

func TestParseRoutes(t *testing.T) {
	table := "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
		"eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" +
		"tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n" +
		"tun0\t0000D50A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n" +
		"eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
	got, err := parseRoutes(strings.NewReader(table))
	if want := prefixes("10.213.0.0/16", "192.0.2.0/24"); err != nil || !slices.Equal(got, want) {
		t.Errorf("parseRoutes = %v, %v; want %v", got, err, want)
	}
	if _, err := parseRoutes(strings.NewReader("eth0 xyz 0 0 0 0 0 0 0 0 0")); err == nil {
		t.Error("a broken table was read")
	}
}

func TestJudgeBelievesOnlyAReport(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		stdout string
		want   string // in the error; "" for none
	}{
		"fine":            {0, `{"ok":true}`, ""},
		"refused":         {1, `{"ok":false,"error":"no \u001b[2Jroom"}`, `the box says "no \u001b[2Jroom"`},
		"liar":            {1, `{"ok":true}`, "code 1 and no report"},
		"silent":          {0, ``, "no report"},
		"chatty":          {0, `{"ok":true}{"ok":true}`, "no report"},
		"unknown key":     {0, `{"ok":true,"also":1}`, "no report"},
		"other case":      {0, `{"OK":true}`, "no report"},
		"not UTF-8":       {0, "{\"ok\":true,\"error\":\"\xff\"}", "no report"},
		"neither of both": {0, `{"ok":false}`, "no report"},
	} {
		err := judge(c.code, []byte(c.stdout), []byte("words\x1b[31m"))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case err != nil && strings.Contains(err.Error(), "\x1b"):
			t.Errorf("%s: the box's controls reach the terminal: %q", name, err)
		}
	}
}

func FuzzJudge(f *testing.F) {
	f.Add(0, []byte(`{"ok":true}`), []byte("words"))
	f.Add(1, []byte(`{"ok":false,"error":"x"}`), []byte("\x1b[2J"))
	f.Fuzz(func(t *testing.T, code int, stdout, stderr []byte) {
		err := judge(code, stdout, stderr)
		if err == nil && (code != 0 || !bytes.Contains(stdout, []byte("true"))) {
			t.Errorf("judge(%d, %q) believes it", code, stdout)
		}
		if err != nil && (len(err.Error()) > 20_000 || strings.ContainsAny(err.Error(), "\x1b\n\r\u009b")) {
			t.Errorf("judge(%d, %q, %q) = %q", code, stdout, stderr, err)
		}
	})
}

func TestBootstrapFollowsTheHost(t *testing.T) {
	host := func(files map[string]string) func(string) ([]byte, error) {
		return func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}
	}
	for name, c := range map[string]struct {
		files map[string]string
		tail  []string // suite, output, sources
	}{
		"debian": {map[string]string{
			"/etc/os-release":                        "ID=debian\nVERSION_CODENAME=trixie\n",
			"/etc/apt/sources.list.d/debian.sources": "Types: deb\n",
		}, []string{"trixie", "-", "/etc/apt/sources.list.d/debian.sources"}},
		"old ubuntu": {map[string]string{
			"/etc/os-release":       "ID=\"ubuntu\"\nVERSION_CODENAME=jammy\n",
			"/etc/apt/sources.list": "deb x jammy main\n",
		}, []string{"jammy", "-", "/etc/apt/sources.list"}},
		"without sources": {map[string]string{"/etc/os-release": "ID=debian\nVERSION_CODENAME=trixie\n"}, []string{"bookworm", "-"}},
		"other":           {map[string]string{"/etc/os-release": "ID=fedora\n", "/etc/apt/sources.list": "deb"}, []string{"bookworm", "-"}},
		"nothing":         {nil, []string{"bookworm", "-"}},
	} {
		b := hostBootstrap(host(c.files), []string{"git", "tmux"})
		args := b.arguments()
		if !slices.Equal(args[len(args)-len(c.tail):], c.tail) || !slices.Contains(args, "--include=git,tmux") {
			t.Errorf("%s: arguments %q, want the end %q", name, args, c.tail)
		}
		changed := b
		changed.content = append(slices.Clone(b.content), '#')
		if b.ref() == changed.ref() {
			t.Errorf("%s: other sources give the same name %s", name, b.ref())
		}
	}
}

func TestLineWriterHandsOnLines(t *testing.T) {
	var lines []string
	w := &lineWriter{emit: func(line string) { lines = append(lines, line) }}
	for _, text := range []string{"one\ntw", "o\rthree\n\n", "rest"} {
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"one", "two", "three"}; !slices.Equal(lines, want) {
		t.Errorf("lines = %q, want %q", lines, want)
	}
	if got := w.tail(); got != "one\ntwo\nthree\nrest" {
		t.Errorf("tail = %q", got)
	}
}

func TestProgramsOfTheProjectAreNotRun(t *testing.T) {
	project, elsewhere := t.TempDir(), t.TempDir()
	for _, dir := range []string{filepath.Join(project, "bin"), elsewhere} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "agentbox-test-tool"), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(project)
	t.Setenv("PATH", strings.Join([]string{"bin", filepath.Join(project, "bin"), elsewhere}, string(filepath.ListSeparator)))
	if got, err := program("agentbox-test-tool"); got != filepath.Join(elsewhere, "agentbox-test-tool") {
		t.Errorf("program = %q, %v", got, err)
	}
	t.Setenv("PATH", filepath.Join(project, "bin"))
	if got, err := program("agentbox-test-tool"); err == nil {
		t.Errorf("program = %q", got)
	}
}

func TestWantedImage(t *testing.T) {
	e, err := engine.Connect(engine.Endpoint{Host: "unix:///nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	wants := func(change func(*Options)) wanted {
		t.Helper()
		o := Options{Engine: e, Registry: "registry.example/box", Version: "v1.2.3", Ctl: func(string) ([]byte, error) { return []byte("ctl"), nil }}
		change(&o)
		p, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		w, err := p.want("amd64", images.Lean)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	noCtl := func(o *Options) { o.Ctl = func(string) ([]byte, error) { return nil, images.ErrNoCtl } }

	normal := wants(func(*Options) {})
	fingerprint := normal.labels[images.LabelFingerprint]
	if len(fingerprint) != 64 || normal.remote != "registry.example/box:lean-sha-"+fingerprint[:16] || normal.ref != "agentbox/box:lean" {
		t.Errorf("wanted = %+v", normal)
	}
	if w := wants(func(o *Options) { o.Registry = "" }); w.remote != "" {
		t.Errorf("without a registry %q is pulled", w.remote)
	}
	if w := wants(noCtl); w.remote != "registry.example/box:lean-v1.2.3" || w.labels[images.LabelVersion] != "v1.2.3" || w.labels[images.LabelFingerprint] != "" {
		t.Errorf("without agentbox-ctl wanted = %+v", w)
	}
	if w := wants(func(o *Options) { noCtl(o); o.Version = "(devel)" }); w.remote != "" {
		t.Errorf("of an unreleased version %q is pulled", w.remote)
	}
	if w := wants(func(o *Options) { o.BaseImage = "other" }); w.labels[images.LabelFingerprint] == fingerprint {
		t.Error("another base has the same fingerprint")
	}
	if !reflect.DeepEqual(wants(func(*Options) {}), normal) {
		t.Error("the same options want another image")
	}
}

func TestOneLockForAllWhoUseAnEngine(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	lockOf := func(host, home string) string {
		t.Helper()
		t.Setenv("AGENTBOX_HOME", home)
		e, err := engine.Connect(engine.Endpoint{Host: host})
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(Options{Engine: e})
		if err != nil {
			t.Fatal(err)
		}
		return p.lockFile("image").Path()
	}
	one := lockOf("unix:///one", "/home/one")
	if !strings.HasPrefix(one, cache+"/agentbox/image-") || one != lockOf("unix:///one", "/home/two") {
		t.Errorf("two state folders have two locks, or none: %s", one)
	}
	if one == lockOf("unix:///two", "/home/one") {
		t.Error("two engines have one lock")
	}
}

func TestUnreleasedVersionsBuildNoCtl(t *testing.T) {
	for _, version := range []string{"(devel)", "", "v1", "v1.2.3 -insecure", "latest", "../x"} {
		if _, err := buildCtl(t.Context(), version, "amd64", func(string) {}); err == nil {
			t.Errorf("agentbox-ctl was built at version %q", version)
		}
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	e, err := engine.Connect(engine.Endpoint{Host: "unix:///nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"no engine":  {},
		"IPv6 pool":  {Engine: e, NetworkPool: netip.MustParsePrefix("fd00::/64")},
		"small pool": {Engine: e, NetworkPool: netip.MustParsePrefix("10.0.0.0/29")},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

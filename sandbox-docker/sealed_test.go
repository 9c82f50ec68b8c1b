package sandboxdocker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/sandbox-docker/engine"
	"github.com/madarco/agentbox/sandbox-docker/seccomp"
)

func inspect(t *testing.T, at engine.Endpoint, box core.Box) (container.InspectResponse, []string) {
	t.Helper()
	api, err := client.New(client.WithHost(at.Host))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	c, err := api.ContainerInspect(t.Context(), box.Docker.Container, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := api.NetworkInspect(t.Context(), box.Docker.Network, client.NetworkInspectOptions{Verbose: true})
	if err != nil {
		t.Fatal(err)
	}
	i, err := api.ImageInspect(t.Context(), box.Docker.ImageID)
	if err != nil {
		t.Fatal(err)
	}
	image, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	return c.Container, []string{string(c.Raw), string(n.Raw), string(image)}
}

func TestBoxIsSealed(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	p := newProvider(t, at)
	box := create(t, p, draft(t))
	got, texts := inspect(t, at, box)
	filter, err := seccomp.JSON(seccomp.Default)
	if err != nil {
		t.Fatal(err)
	}

	h := got.HostConfig
	for name, wrong := range map[string]bool{
		"privileged":         h.Privileged,
		"capabilities added": len(h.CapAdd) > 0,
		"devices":            len(h.Devices)+len(h.DeviceRequests)+len(h.DeviceCgroupRules) > 0,
		"binds":              len(h.Binds)+len(h.VolumesFrom) > 0,
		"restart policy":     !h.RestartPolicy.IsNone(),
		"log without end":    h.LogConfig.Config["max-size"] != "10m" || h.LogConfig.Config["max-file"] != "2",
		"swap":               h.MemorySwap != h.Memory || h.Memory < 2<<30,
		"processes":          h.PidsLimit == nil || *h.PidsLimit != 2048,
		"host namespaces":    h.PidMode != "" || h.UTSMode != "" || h.UsernsMode != "" || !h.IpcMode.IsPrivate() || !h.CgroupnsMode.IsPrivate(),
		"unmasked /proc":     len(h.MaskedPaths) == 0 || len(h.ReadonlyPaths) == 0,
		"published ports":    len(h.PortBindings) > 0 || h.PublishAllPorts,
		"network":            string(h.NetworkMode) != "agentbox-"+box.ID,
		"out-of-memory rank": h.OomScoreAdj != 300,
		"stop timeout":       got.Config.StopTimeout == nil || *got.Config.StopTimeout != 25,
		"user":               got.Config.User != "vscode",
		"host name":          got.Config.Hostname != string(box.Name),
		"process 1":          !slices.Equal(got.Config.Entrypoint, []string{"/usr/local/bin/agentbox-ctl", "init"}) || len(got.Config.Cmd) > 0,
	} {
		if wrong {
			t.Errorf("the box's %s is not as sealed wants it", name)
		}
	}
	if want := []string{"CAP_MKNOD", "CAP_NET_RAW"}; !slices.Equal(h.CapDrop, want) {
		t.Errorf("capabilities dropped = %v, want %v", h.CapDrop, want)
	}
	if want := []string{"seccomp=" + filter}; !slices.Equal(h.SecurityOpt, want) {
		t.Errorf("security options = %.80q, want the default profile and nothing else", h.SecurityOpt)
	}
	if len(h.Mounts) != 2 {
		t.Errorf("%d mounts, want relay and seed", len(h.Mounts))
	}
	for _, m := range h.Mounts {
		if m.Type != mount.TypeBind || !m.ReadOnly || !m.BindOptions.NonRecursive {
			t.Errorf("mount %+v is no read-only bind of one folder", m)
		}
	}
	if got.Config.Labels["agentbox.profile-hash"] != seccomp.Hash(filter) || got.Config.Labels["agentbox.project"] != box.ProjectRoot {
		t.Errorf("labels = %v", got.Config.Labels)
	}
	texts = append(texts, output(t, p, box, "sudo", "sh", "-c", "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'"))
	for _, text := range texts {
		if strings.Contains(text, token) {
			t.Errorf("the token stands where others read it: %.200s", text)
		}
	}
	if got := output(t, p, box, "cat", "/run/agentbox/relay.env"); !strings.Contains(got, token) {
		t.Error("the box did not get its token")
	}
}

func TestBoxCannot(t *testing.T) {
	t.Parallel()
	p := newProvider(t, endpoint(t))
	box := create(t, p, draft(t))
	program, err := probe()
	if err != nil {
		t.Fatal(err)
	}
	upload(t, p, box, "/tmp/probe", program)
	for who, argv := range map[string][]string{
		"the box user": {"/tmp/probe"},
		"root by sudo": {"sudo", "/tmp/probe"},
	} {
		text := output(t, p, box, argv...)
		if strings.Count(text, "\n") < 15 {
			t.Errorf("the probe as %s printed %q", who, text)
		}
		for line := range strings.SplitSeq(text, "\n") {
			if strings.HasSuffix(line, "OPEN") {
				t.Errorf("open to %s: %s", who, line)
			}
		}
	}
	for _, command := range []string{
		"sudo apt-get --version", "sudo chown vscode /mnt", "ping -c 1 -W 5 127.0.0.1", "sudo -u nobody true",
		"tmux -f /etc/tmux.conf new-session -d true", "git init -q /tmp/r && git -C /tmp/r status",
		`test "$(ulimit -c)" = 0`,
	} {
		output(t, p, box, "sh", "-c", command)
	}
}

// The probe must be able to fail, or its silence would prove nothing.
func TestProbeSeesAnOpenBox(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	p := newProvider(t, at)
	image, err := p.EnsureImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := options(t, at).Engine
	id, err := e.CreateContainer(t.Context(), client.ContainerCreateOptions{
		Config:     &container.Config{Image: image.ID, User: "root", Entrypoint: []string{"sleep", "1000"}},
		HostConfig: &container.HostConfig{CapAdd: []string{"SYS_ADMIN"}, SecurityOpt: []string{"seccomp=unconfined", "apparmor=unconfined"}, NetworkMode: "none"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.RemoveContainer(t.Context(), id); err != nil {
			t.Errorf("clean up: %v", err)
		}
	}()
	if err := e.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	program, err := probe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if code, err := e.Exec(t.Context(), id, provider.ExecRequest{
		Argv:  []string{"sh", "-c", "mkdir -p /run/agentbox/relay; cat >/tmp/probe; chmod 755 /tmp/probe; /tmp/probe"},
		Stdin: strings.NewReader(string(program)), Stdout: &out,
	}); code != 0 || err != nil {
		t.Fatalf("probe: code %d, %v", code, err)
	}
	for _, open := range []string{"raw socket", "packet socket", "mknod", "mount", "user namespace", "io_uring", "write relay folder"} {
		if !strings.Contains(out.String(), open+": OPEN\n") {
			t.Errorf("the probe finds %q shut in an open container:\n%s", open, &out)
		}
	}
}

func TestTwoBoxesShareNoNetwork(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	p := newProvider(t, at)
	one, two := create(t, p, draft(t)), create(t, p, draft(t))
	addresses := map[string]netip.Addr{}
	for _, box := range []core.Box{one, two} {
		got, _ := inspect(t, at, box)
		if len(got.NetworkSettings.Networks) != 1 {
			t.Fatalf("box %s is in %d networks", box.Name, len(got.NetworkSettings.Networks))
		}
		for name, n := range got.NetworkSettings.Networks {
			if name != box.Docker.Network || n.IPPrefixLen != 28 {
				t.Errorf("box %s has %s/%d in network %s", box.Name, n.IPAddress, n.IPPrefixLen, name)
			}
			addresses[box.ID] = n.IPAddress
		}
	}
	if one.Docker.Network == two.Docker.Network {
		t.Error("two boxes have one network")
	}
	// The first box listens on all its addresses; only it itself gets through.
	listen := `import socket
s = socket.create_server(("", 7000))
print("up", flush=True)
while True: s.accept()`
	screen := &watch{seen: make(chan string, 1)}
	ended := make(chan struct{})
	defer func() { <-ended }()
	defer func() { output(t, p, one, "pkill", "python3") }()
	go func() {
		defer close(ended)
		p.Exec(t.Context(), one, provider.ExecRequest{Argv: []string{"python3", "-c", listen}, Stdout: screen})
	}()
	screen.until(t, "up")
	dial := fmt.Sprintf("import socket; socket.create_connection((%q, 7000), 2)", addresses[one.ID])
	output(t, p, one, "python3", "-c", dial)
	if code, _, text := run(t, p, two, "python3", "-c", dial); code == 0 {
		t.Errorf("the other box got through to %s: %s", addresses[one.ID], text)
	}
}

func TestLimitsReachTheBox(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	p := newProvider(t, at)
	req := draft(t)
	req.Box.Limits = core.Limits{MemoryBytes: 256 << 20, PIDs: 64, CPUs: 0.5}
	box := create(t, p, req)
	if box.Limits != req.Box.Limits {
		t.Errorf("limits in the record = %+v", box.Limits)
	}
	got, _ := inspect(t, at, box)
	if r := got.HostConfig.Resources; r.Memory != 256<<20 || r.MemorySwap != 256<<20 || *r.PidsLimit != 64 || r.NanoCPUs != 5e8 {
		t.Errorf("limits of the container = %+v", r)
	}
	// A flood of processes ends at the limit, and the box goes on.
	flood := `import os, signal
children = []
try:
    while len(children) < 200:
        child = os.fork()
        if child == 0: signal.pause()
        children.append(child)
except OSError: pass
for child in children: os.kill(child, signal.SIGKILL)
for child in children: os.waitpid(child, 0)
print(len(children) < 64)`
	if got := output(t, p, box, "python3", "-c", flood); got != "True" {
		t.Error("the box started as many processes as it liked")
	}
	output(t, p, box, "true")
}

func TestMissingImage(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	req := draft(t)
	req.Image = "agentbox-test/none:none"
	if _, err := newProvider(t, at).Create(t.Context(), req); !errors.Is(err, provider.ErrUnknownImage) {
		t.Errorf("Create from a missing image: %v, want ErrUnknownImage", err)
	}
	if left := leftovers(t, at, req.Box.ID); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

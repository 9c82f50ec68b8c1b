package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/madarco/agentbox/ctl/relayenv"
	"github.com/madarco/agentbox/relay/bridge"
)

// cloud tells whether the host must come to this box, since no socket of the
// host's is in it.
func cloud() bool { return os.Getenv("AGENTBOX_BOX_KIND") == "cloud" }

// maxToken bounds what is read as a token; tokenTime how long a descriptor may
// be silent.
const (
	maxToken  = 4 << 10
	tokenTime = 10 * time.Second
)

// ReadBridgeToken reads the bridge's token, one line, from an inherited
// descriptor, and closes it; a negative one means that there is none. The token
// stands in no file, argument or variable that a tool of the box could read.
func ReadBridgeToken(fd int) (string, error) {
	if fd < 0 {
		return "", nil
	}
	f := os.NewFile(uintptr(fd), "bridge token")
	if f == nil {
		return "", fmt.Errorf("read the bridge's token: there is no descriptor %d", fd)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(tokenTime)) // pipes and sockets have one
	text, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", fmt.Errorf("read the bridge's token from descriptor %d: %w", fd, err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n\x00") {
		return "", fmt.Errorf("read the bridge's token from descriptor %d: want one line", fd)
	}
	return token, nil
}

// errNoBridge: the host has not said all that the bridge needs; it does so when
// it starts the daemon.
var errNoBridge = errors.New("no bridge: the host gave no bridge token, box id or relay token")

// bridgeUpstream stands for the host in the daemon's status.
const bridgeUpstream = "bridge"

// applyBridge serves the relay in the box and the bridge to it on one port of
// all addresses: the provider's proxy, by which the host comes, may enter by any.
// Routes for the box's own tools answer callers from the box alone.
func (d *daemon) applyBridge() error {
	if d.forwarder != nil {
		return nil
	}
	boxID, token := relayenv.Lookup(relayenv.BoxID), relayenv.Lookup(relayenv.Token)
	if d.BridgeToken == "" || boxID == "" || token == "" {
		d.Log.Print(errNoBridge)
		d.setRelay(func(r *Relay) { *r = Relay{Upstream: bridgeUpstream, Problem: errNoBridge.Error()} })
		return nil
	}
	box, err := bridge.NewBox(bridge.BoxConfig{BoxID: boxID, BoxToken: token, BridgeToken: d.BridgeToken})
	if err != nil {
		d.setRelay(func(r *Relay) { *r = Relay{Upstream: bridgeUpstream, Problem: err.Error()} })
		return err
	}
	addr := d.relayAddr()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("open the bridge: %w", err)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort("", port))
	if err != nil {
		err = fmt.Errorf("open the bridge: %w", err)
		d.setRelay(func(r *Relay) { *r = Relay{Upstream: bridgeUpstream, Problem: err.Error()} })
		return err
	}
	d.setRelay(func(r *Relay) { *r = Relay{Listen: addr, Upstream: bridgeUpstream} })
	d.serveRelay(ln, box.Handler())
	return nil
}

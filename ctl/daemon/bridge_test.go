package daemon

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/ctl/control"
	"github.com/madarco/agentbox/ctl/relayenv"
)

func TestACloudBoxServesItsBridge(t *testing.T) {
	b := newBox(t)
	t.Setenv("AGENTBOX_BOX_KIND", "cloud")
	t.Setenv(relayenv.BoxID, "b00000001")
	t.Setenv(relayenv.Token, strings.Repeat("o", 64))
	b.o.BridgeToken = strings.Repeat("h", 64)
	b.start()
	for token, want := range map[string]int{b.o.BridgeToken: http.StatusOK, strings.Repeat("o", 64): http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+b.port+"/bridge/healthz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("status %d; want %d", res.StatusCode, want)
		}
	}
}

func TestACloudBoxWithoutATokenSaysSo(t *testing.T) {
	b := newBox(t)
	t.Setenv("AGENTBOX_BOX_KIND", "cloud")
	b.start()
	var s Status
	err := control.Call(t.Context(), b.o.Socket, control.Request{Op: control.Status}, &s)
	if err != nil || s.Relay.Listen != "" || s.Relay.Problem != errNoBridge.Error() {
		t.Errorf("status %+v, %v", s.Relay, err)
	}
}

func TestTheBridgeTokenComesByDescriptor(t *testing.T) {
	for text, want := range map[string]string{"token\n": "token", "token": "token", "": "", "two words\n": "", "two\nlines\n": ""} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
		w.Close()
		fd, err := syscall.Dup(int(r.Fd())) // the reader closes its own
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if got, err := ReadBridgeToken(fd); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
	if got, err := ReadBridgeToken(-1); got != "" || err != nil {
		t.Errorf("without a descriptor: %q, %v", got, err)
	}
}

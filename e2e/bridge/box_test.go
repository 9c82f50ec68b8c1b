package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/bridge"
)

const (
	boxID   = "b0000000e"
	boxPort = "8788"
	// asBox tells this program to be the box; its value names the box's life, so
	// that no two of them ask under one id.
	asBox = "AGENTBOX_E2E_BRIDGE_BOX"
	// callers is how many tools of the box ask at one time.
	callers = 8
)

var boxToken, bridgeToken = strings.Repeat("o", 64), strings.Repeat("h", 64)

func TestMain(m *testing.M) {
	if life := os.Getenv(asBox); life != "" {
		if err := serveBox(life); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// outcome is one line of the box: what a tool asked for and was told.
type outcome struct {
	N      string
	Exit   int
	Stdout string
}

// serveBox is the box: its relay, and tools that ask one thing after another and
// print what they are told, until standard input ends.
func serveBox(life string) error {
	box, err := bridge.NewBox(bridge.BoxConfig{BoxID: boxID, BoxToken: boxToken, BridgeToken: bridgeToken})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", ":"+boxPort)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: box.Handler()} //nolint:gosec // a test's
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // its end is the order to finish
		stop()
	}()
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	var tools sync.WaitGroup
	for c := range callers {
		tools.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				o, err := ask(fmt.Sprintf("%s-%d-%d", life, c, i))
				if err != nil {
					continue
				}
				mu.Lock()
				_ = out.Encode(o)
				mu.Unlock()
			}
		})
	}
	tools.Wait()
	_ = srv.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func ask(n string) (outcome, error) {
	body := fmt.Sprintf(`{"requestId":%q,"method":"count","params":{"n":%q}}`, n, n)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://127.0.0.1:"+boxPort+"/rpc", strings.NewReader(body))
	if err != nil {
		return outcome{}, err
	}
	req.Header.Set("Authorization", "Bearer "+boxToken)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return outcome{}, err
	}
	defer res.Body.Close()
	var e wire.Envelope
	err = json.NewDecoder(res.Body).Decode(&e)
	return outcome{n, e.ExitCode, e.Stdout}, err
}

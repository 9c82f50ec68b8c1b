package sandboxdocker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moby/moby/client"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// middle stands between a provider and the engine. It counts the calls that
// change something, and lets a test spoil one of them.
type middle struct {
	calls atomic.Int64
	// before and after are asked with the number of each such call, from 1:
	// before it reaches the engine and after the engine has done it. An answer
	// of false fails the call.
	before, after func(number int64) bool
}

var errSpoiled = errors.New("the answer got lost")

// listen serves the proxy and returns where.
func (m *middle) listen(t *testing.T, at engine.Endpoint) engine.Endpoint {
	t.Helper()
	path, local := strings.CutPrefix(at.Host, "unix://")
	if !local {
		t.Skipf("the engine at %s has no Unix socket", at.Host)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "docker"}) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}},
		ModifyResponse: func(r *http.Response) error {
			if number, counted := r.Request.Context().Value(callNumber{}).(int64); counted && !m.after(number) {
				return errSpoiled
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		},
		FlushInterval: -1,
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			number := m.calls.Add(1)
			if !m.before(number) {
				http.Error(w, "spoiled", http.StatusInternalServerError)
				return
			}
			r = r.WithContext(context.WithValue(r.Context(), callNumber{}, number))
		}
		proxy.ServeHTTP(w, r)
	})}
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return engine.Endpoint{Host: "unix://" + socket}
}

type callNumber struct{}

func always(int64) bool { return true }

// leftovers lists what the engine has of a box.
func leftovers(t *testing.T, at engine.Endpoint, id string) []string {
	t.Helper()
	api, err := client.New(client.WithHost(at.Host))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	ctx := context.WithoutCancel(t.Context())
	mark := make(client.Filters).Add("label", "agentbox.id="+id)
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: mark})
	if err != nil {
		t.Fatal(err)
	}
	networks, err := api.NetworkList(ctx, client.NetworkListOptions{Filters: mark})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range containers.Items {
		all = append(all, fmt.Sprint("container ", c.Names))
	}
	for _, n := range networks.Items {
		all = append(all, "network "+n.Name)
	}
	return all
}

// callsOfACreate counts the changing calls of a create that goes well.
func callsOfACreate(t *testing.T, at engine.Endpoint) int64 {
	t.Helper()
	m := &middle{before: always, after: always}
	create(t, newProvider(t, m.listen(t, at)), draft(t))
	return m.calls.Load()
}

func TestCreateThatFailsAnywhereLeavesNothing(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	calls := callsOfACreate(t, at)
	if calls < 5 {
		t.Fatalf("a create made %d changing calls; at least network, container, start and two for setup were expected", calls)
	}
	for number := int64(1); number <= calls; number++ {
		except := func(n int64) bool { return n != number }
		for name, m := range map[string]*middle{
			"refused":     {before: except, after: always},
			"answer lost": {before: always, after: except},
		} {
			t.Run(fmt.Sprintf("call %d %s", number, name), func(t *testing.T) {
				req := draft(t)
				box, err := newProvider(t, m.listen(t, at)).Create(t.Context(), req)
				if err == nil {
					t.Error("Create succeeded")
				}
				if box.ID != "" {
					t.Errorf("a failed Create returned box %+v", box)
				}
				if left := leftovers(t, at, req.Box.ID); len(left) > 0 {
					t.Errorf("left behind: %v (after %v)", left, err)
				}
			})
		}
	}
}

func TestCreateThatIsCancelledAnywhereLeavesNothing(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	for number := range callsOfACreate(t, at) {
		t.Run(fmt.Sprintf("call %d", number+1), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := &middle{after: always, before: func(n int64) bool {
				if n == number+1 {
					cancel()
				}
				return true
			}}
			req := draft(t)
			if _, err := newProvider(t, m.listen(t, at)).Create(ctx, req); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled Create: %v", err)
			}
			if left := leftovers(t, at, req.Box.ID); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestCreateWhoseSetupFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	p := newProvider(t, at)
	broken := errors.New("the seed is damaged")
	for name, c := range map[string]struct {
		setup provider.Setup
		want  error
	}{
		"on the host":   {func(context.Context, io.Writer) error { return broken }, broken},
		"half-way":      {func(_ context.Context, w io.Writer) error { w.Write([]byte("abx")); return broken }, broken},
		"in the box":    {garbage, nil},
		"with no bytes": {func(context.Context, io.Writer) error { return nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			req := draft(t)
			req.Setup = c.setup
			_, err := p.Create(t.Context(), req)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("Create = %v, want %v", err, c.want)
			}
			if left := leftovers(t, at, req.Box.ID); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestNameThatIsTakenHarmsNobody(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	p := newProvider(t, at)
	first := create(t, p, draft(t))

	second := draft(t)
	second.Box.Name = first.Name
	if _, err := p.Create(t.Context(), second); !errors.Is(err, provider.ErrNameTaken) {
		t.Errorf("Create with a taken name: %v, want ErrNameTaken", err)
	}
	if left := leftovers(t, at, second.Box.ID); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	again := draft(t) // the same id too: a create undoes only what it made itself
	again.Box = first
	if _, err := p.Create(t.Context(), again); !errors.Is(err, provider.ErrNameTaken) {
		t.Errorf("Create with a taken id and name: %v, want ErrNameTaken", err)
	}
	if state, err := p.State(t.Context(), first); state != core.StateRunning || err != nil {
		t.Errorf("the first box is %s, %v", state, err)
	}
	output(t, p, first, "true")

	other := first
	other.ID = core.NewBoxID()
	if state, err := p.State(t.Context(), other); state != core.StateMissing || err != nil {
		t.Errorf("another box's container passes for this box's: %s, %v", state, err)
	}
}

func TestUnreachableEngine(t *testing.T) {
	t.Parallel()
	p := newProvider(t, engine.Endpoint{Host: "unix://" + filepath.Join(t.TempDir(), "none.sock")})
	box := core.Box{ID: core.NewBoxID(), Name: "none"}
	if _, err := p.Create(t.Context(), draft(t)); !errors.Is(err, provider.ErrUnavailable) {
		t.Errorf("Create: %v, want ErrUnavailable", err)
	}
	if state, err := p.State(t.Context(), box); state != core.StateUnknown || !errors.Is(err, provider.ErrUnavailable) {
		t.Errorf("State = %s, %v; want unknown and ErrUnavailable", state, err)
	}
	if err := p.Destroy(t.Context(), box); !errors.Is(err, provider.ErrUnavailable) {
		t.Errorf("Destroy: %v, want ErrUnavailable", err)
	}
	if _, err := p.Capabilities(t.Context()); !errors.Is(err, provider.ErrUnavailable) {
		t.Errorf("Capabilities: %v, want ErrUnavailable", err)
	}
}

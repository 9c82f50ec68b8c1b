// Package standalone runs a server of the suites as a program of its own.
//
// Invariants:
//   - The address is told once connections are taken, and as a whole.
//   - A server that was told to end lets requests that have begun come to their
//     end, for as long as the caller grants.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/madarco/agentbox/core/atomicfile"
)

// Listen takes an address and tells its URL: on standard output, and in urlFile
// unless that is empty.
func Listen(ctx context.Context, address, urlFile string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	url := "http://" + listener.Addr().String()
	if urlFile != "" {
		if err := atomicfile.Write(urlFile, []byte(url+"\n"), 0o600); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
	}
	fmt.Println(url)
	return listener, nil
}

// Serve serves until ctx ends, then for at most grace longer.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, grace time.Duration) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		stopped <- server.Shutdown(end)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	return <-stopped
}

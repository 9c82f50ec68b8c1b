package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	maxRequest  = 1 << 20
	requestTime = 10 * time.Second
	maxClients  = 64
)

// Handler answers one request; its data is encoded as JSON.
type Handler func(ctx context.Context, req Request) (data any, err error)

// Listen opens the socket. A file that is in the way is taken for the rest of
// a daemon that died, so the caller holds the daemon's lock.
func Listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the socket's folder: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	// Some shared file systems refuse to change a socket's mode. The folder's
	// own mode guards it then.
	_ = os.Chmod(path, 0o660)
	return ln, nil
}

// Serve answers requests until ctx ends, and returns when the last one is done.
// It closes the listener.
func Serve(ctx context.Context, ln net.Listener, handle Handler) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	slots := make(chan struct{}, maxClients)
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			ln.Close()
			return fmt.Errorf("accept on the control socket: %w", err)
		}
		slots <- struct{}{}
		clients.Go(func() {
			defer func() { <-slots }()
			serveOne(ctx, conn, handle)
		})
	}
}

func serveOne(ctx context.Context, conn net.Conn, handle Handler) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now()) })
	defer stop()
	conn.SetReadDeadline(time.Now().Add(requestTime))
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	if err != nil && len(line) == 0 {
		return
	}
	var req Request
	if json.Unmarshal(line, &req) != nil {
		reply(conn, newAnswer(nil, errors.New("invalid JSON")))
		return
	}
	conn.SetReadDeadline(time.Time{})
	go func() { // ends with the connection, at the latest when serveOne closes it
		_, _ = io.Copy(io.Discard, conn)
		cancel()
	}()
	data, err := handle(ctx, req)
	reply(conn, newAnswer(data, err))
}

func reply(conn net.Conn, a answer) {
	conn.SetWriteDeadline(time.Now().Add(requestTime))
	_ = json.NewEncoder(conn).Encode(a) // the caller may be gone
}

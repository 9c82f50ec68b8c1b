package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/madarco/agentbox/core"
)

// channel is the socket of one box and what serves it.
type channel struct {
	srv  *http.Server
	done chan struct{}
}

// NewHTTPServer is an http.Server with the relay's bounds, whose requests end
// with base.
func NewHTTPServer(base context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// OpenChannel opens the socket of a registered box; one that is open stays.
// Its folder alone is what the box sees of the host, and only the user's own
// home leads to it, so the socket itself is open to every uid.
func (s *Server) OpenChannel(box core.Box) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStopping
	}
	if s.channels[box.ID] != nil {
		return nil
	}
	l, err := listenBox(s.cfg.Home, box.ID)
	if err != nil {
		return fmt.Errorf("open the channel of box %s: %w", box.Name, err)
	}
	c := &channel{srv: NewHTTPServer(s.serving, s.BoxHandler(box.ID), s.log), done: make(chan struct{})}
	s.channels[box.ID] = c
	go func() {
		defer close(c.done)
		if err := c.srv.Serve(s.BoxListener(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the channel of a box ended", "box", box.ID, "err", err)
		}
	}()
	return nil
}

func listenBox(home core.Home, boxID string) (net.Listener, error) {
	dir, socket := home.RelayDir(boxID), home.RelaySocket(boxID)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask is
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// closeChannel ends a box's channel with every request on it.
func (s *Server) closeChannel(boxID string) {
	s.mu.Lock()
	c := s.channels[boxID]
	delete(s.channels, boxID)
	s.mu.Unlock()
	if c != nil {
		_ = c.srv.Close()
		<-c.done
	}
}

// closeChannels ends them all, once their requests have seen that the relay
// stops.
func (s *Server) closeChannels() {
	s.mu.Lock()
	open := s.channels
	s.channels = map[string]*channel{}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, c := range open {
		if err := c.srv.Shutdown(ctx); err != nil {
			_ = c.srv.Close()
		}
		<-c.done
	}
}

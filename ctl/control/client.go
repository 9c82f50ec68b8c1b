package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// connectTime bounds the connect alone: an answer may take as long as it takes.
const connectTime = 3 * time.Second

// ErrNotRunning: nothing answers on the socket.
var ErrNotRunning = errors.New("the supervisor is not running")

// Call sends one request and decodes the answer's data into out, which may be
// nil. The error wraps ErrNotRunning when no daemon takes the connection;
// otherwise it is what the daemon said.
func Call(ctx context.Context, socket string, req Request, out any) error {
	dialer := net.Dialer{Timeout: connectTime}
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return fmt.Errorf("send %s to the supervisor: %w", req.Op, err)
	}
	var a answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("read the supervisor's answer to %s: %w", req.Op, err)
	}
	if !a.OK {
		return errors.New(a.Error)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(a.Data, out); err != nil {
		return fmt.Errorf("decode the supervisor's answer to %s: %w", req.Op, err)
	}
	return nil
}

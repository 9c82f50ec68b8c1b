// Package interrupt turns the user's Ctrl-C into the end of a context: the
// first one asks the command to stop and clean up, the second ends the
// process at once and says what may remain.
package interrupt

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/madarco/agentbox/cli/internal/fail"
)

// Signals are what counts as an interrupt.
var Signals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// Watcher knows what would remain if the process ended now.
type Watcher struct {
	w    io.Writer
	exit func(code int)

	mu      sync.Mutex
	remains string
}

// Remains says what would be left behind from now on; "" is nothing.
func (i *Watcher) Remains(what string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.remains = what
}

// Watch derives a context that the first signal ends with fail.ErrInterrupted
// as its cause. stop gives the signals back.
func Watch(parent context.Context, w io.Writer) (ctx context.Context, i *Watcher, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, Signals...)
	i = &Watcher{w: w, exit: os.Exit}
	ctx, stopWatch := i.watch(parent, signals)
	return ctx, i, func() {
		signal.Stop(signals)
		stopWatch()
	}
}

func (i *Watcher) watch(parent context.Context, signals <-chan os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-signals:
			}
			if n == 0 {
				cancel(fail.ErrInterrupted)
				i.warn()
				continue
			}
			i.leave()
		}
	}()
	return ctx, func() {
		close(done)
		<-ended
		cancel(nil)
	}
}

// warn tells the user that cleaning up takes a moment, where there is
// something to clean up.
func (i *Watcher) warn() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.remains != "" {
		fmt.Fprintf(i.w, "\ninterrupted: removing what was made; interrupt again to leave at once\n")
	}
}

func (i *Watcher) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.remains != "" {
		fmt.Fprintf(i.w, "\nleft at once; there may remain: %s\n", i.remains)
	}
	i.exit(int(fail.Interrupted))
}

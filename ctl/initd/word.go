package initd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// WordPath is the FIFO in which process 1 reads the host's word.
const WordPath = "/run/agentbox/go"

const word = "go\n"

// makeFIFO makes the FIFO; either end may come first.
func makeFIFO(path string) error {
	err := syscall.Mkfifo(path, 0o600)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the FIFO %s: %w", path, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at the FIFO %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeNamedPipe {
		return fmt.Errorf("%s is in the way of a FIFO", path)
	}
	return nil
}

// listen sends once for each word. The FIFO is open for writing here too, so
// that it never reports an end.
func listen(path string) (<-chan struct{}, error) {
	if err := makeFIFO(path); err != nil {
		return nil, err
	}
	fifo, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open the FIFO: %w", err)
	}
	words := make(chan struct{})
	go func() { // as long as process 1 lives
		defer fifo.Close()
		lines := bufio.NewReaderSize(fifo, 16)
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
			if string(line) == word {
				words <- struct{}{}
			}
		}
	}()
	return words, nil
}

// knock is how often Tell tries a FIFO that nobody reads yet.
const knock = 2 * time.Millisecond

// Tell gives process 1 the word. It waits until process 1 listens, which may
// come later than the caller when the container has just started.
func Tell(ctx context.Context, path string) error {
	if err := makeFIFO(path); err != nil {
		return err
	}
	tick := time.NewTicker(knock)
	defer tick.Stop()
	for {
		fifo, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			_, err = fifo.WriteString(word)
			return errors.Join(err, fifo.Close())
		}
		if !errors.Is(err, syscall.ENXIO) { // ENXIO: nobody reads
			return fmt.Errorf("give process 1 the word: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("give process 1 the word: it does not listen: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

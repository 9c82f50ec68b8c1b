package githttp

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
)

var (
	errEncoding = errors.New("content encoding not served: use gzip or none")
	errTooLarge = errors.New("the request is too large")
	errRequest  = errors.New("malformed request")
)

// requestBody is a request's body, inflated when it was compressed, and counted.
type requestBody struct {
	raw  *counted  // as it comes from the wire
	data io.Reader // what it means, counted too
}

// open checks media type and encoding and starts counting: neither the wire's
// bytes nor what they inflate to may exceed limit.
func open(w http.ResponseWriter, r *http.Request, service string, limit int64) (*requestBody, error) {
	if got, want := r.Header.Get("Content-Type"), "application/x-"+service+"-request"; got != want {
		return nil, fmt.Errorf("%w: the content type must be %s", errRequest, want)
	}
	// Without this the first byte of the answer makes the server swallow what
	// it has not read of the request. HTTP/2 always works this way.
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("answer while reading: %w", err)
	}
	b := &requestBody{raw: &counted{r: r.Body, limit: limit}}
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		b.data = b.raw
	case "gzip", "x-gzip":
		unzip, err := gzip.NewReader(b.raw)
		if err != nil {
			return nil, fmt.Errorf("%w: not gzip", errRequest)
		}
		b.data = &counted{r: unzip, limit: limit}
	default:
		return nil, errEncoding
	}
	return b, nil
}

func (b *requestBody) Read(p []byte) (int, error) { return b.data.Read(p) }

// drain reads what is left, up to as much again as was allowed, so that the
// client gets to read the answer.
func (b *requestBody) drain() { _, _ = io.CopyN(io.Discard, b.raw.r, b.raw.limit) }

// counted fails with errTooLarge once more than limit bytes are read.
type counted struct {
	r           io.Reader
	limit, read int64
}

func (c *counted) Read(p []byte) (int, error) {
	// One byte more than allowed tells "exactly full" from "too much".
	if room := c.limit - c.read + 1; room <= 0 {
		return 0, c.tooLarge()
	} else if int64(len(p)) > room {
		p = p[:room]
	}
	n, err := c.r.Read(p)
	if c.read += int64(n); c.read > c.limit {
		return n, c.tooLarge()
	}
	return n, err
}

func (c *counted) tooLarge() error {
	return fmt.Errorf("%w: more than %d KiB", errTooLarge, c.limit>>10)
}

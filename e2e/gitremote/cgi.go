package gitremote

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// backend runs git http-backend for one request (RFC 3875; the variables that
// it reads are in git-http-backend(1)). The process belongs to this call, but
// not to the request's context: see the package's second invariant.
func (r *Remote) backend(w http.ResponseWriter, req *http.Request) error {
	root, err := filepath.Abs(r.options.Root)
	if err != nil {
		return err
	}
	cmd := exec.Command("git", "http-backend")
	cmd.Env = append(cmd.Environ(),
		"GATEWAY_INTERFACE=CGI/1.1",
		"GIT_PROJECT_ROOT="+root,
		"GIT_HTTP_EXPORT_ALL=1",
		"REQUEST_METHOD="+req.Method,
		"PATH_INFO="+req.URL.Path,
		"QUERY_STRING="+req.URL.RawQuery,
		"CONTENT_TYPE="+req.Header.Get("Content-Type"),
		"HTTP_CONTENT_ENCODING="+req.Header.Get("Content-Encoding"),
		"GIT_PROTOCOL="+req.Header.Get("Git-Protocol"),
		"REMOTE_USER="+r.options.User,
	)
	if req.ContentLength >= 0 {
		cmd.Env = append(cmd.Env, "CONTENT_LENGTH="+strconv.FormatInt(req.ContentLength, 10))
	}
	// git writes while it still reads; without this the server would take the
	// rest of the body away with the first byte of the answer.
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		return err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_, _ = io.Copy(stdin, req.Body) // git judges a body that was cut off
		_ = stdin.Close()
	}()
	answerErr := answer(w, stdout)
	_, _ = io.Copy(io.Discard, stdout)
	<-fed
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("git http-backend: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return answerErr
}

// answer translates a CGI response.
func answer(w http.ResponseWriter, out io.Reader) error {
	r := bufio.NewReader(out)
	header, err := textproto.NewReader(r).ReadMIMEHeader()
	if err != nil {
		return fmt.Errorf("read the header of git http-backend: %w", err)
	}
	status := http.StatusOK
	if s := header.Get("Status"); s != "" {
		code, _, _ := strings.Cut(s, " ")
		if status, err = strconv.Atoi(code); err != nil {
			return fmt.Errorf("git http-backend answered with status %q", s)
		}
		header.Del("Status")
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = io.Copy(w, r) // the client may be gone; git goes on
	return nil
}

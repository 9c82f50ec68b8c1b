package githttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/pktline"
)

// fetchCapabilities is what protocol 0 and 1 offer to a fetch.
const fetchCapabilities = "multi_ack multi_ack_detailed no-done thin-pack side-band side-band-64k ofs-delta shallow deepen-since deepen-not deepen-relative no-progress include-tag"

// advertiseV2 writes the capabilities of protocol version 2 (gitprotocol-v2(5)).
func (e *Endpoint) advertiseV2(out *pktline.Writer) error {
	for _, line := range []string{
		"version 2", agent, "ls-refs=unborn", "fetch=shallow wait-for-done", "object-format=" + e.Repo.ObjectFormat(),
	} {
		if err := out.Printf("%s\n", line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// UploadPack serves POST git-upload-pack: the second half of a fetch. The
// refs of protocol 2 are ours to tell; objects come from the gate.
func (e *Endpoint) UploadPack(w http.ResponseWriter, r *http.Request) {
	body, err := open(w, r, uploadPack, maxNegotiation)
	if err != nil {
		fail(w, err)
		return
	}
	defer body.drain()
	protocol := protocolOf(r)
	if protocol != version2 {
		noStore(w, "application/x-git-upload-pack-result")
		e.serve(r.Context(), w, protocol, body)
		return
	}
	cmd, err := parseCommandV2(body, e.Repo.ObjectFormat())
	if err != nil {
		body.drain()
		fail(w, err)
		return
	}
	noStore(w, "application/x-git-upload-pack-result")
	if cmd.name == "fetch" {
		e.serve(r.Context(), w, protocol, io.MultiReader(&cmd.head, body))
		return
	}
	body.drain()
	refs, err := e.Repo.Refs(r.Context(), false)
	out := pktline.NewWriter(w)
	if err != nil {
		_ = out.Printf("ERR %s\n", oneLine(err.Error()))
		return
	}
	_ = listRefs(out, refs, cmd.list)
}

func (e *Endpoint) serve(ctx context.Context, w http.ResponseWriter, protocol string, body io.Reader) {
	out := &flushing{w: w, rc: http.NewResponseController(w)}
	if err := e.Repo.Serve(ctx, protocol, body, out); err != nil && !out.wrote {
		_ = pktline.NewWriter(w).Printf("ERR %s\n", oneLine(err.Error()))
	}
}

// flushing sends each piece at once: in a stateless negotiation the client may
// wait for the answer to what it has sent so far.
type flushing struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	wrote bool
}

func (f *flushing) Write(p []byte) (int, error) {
	f.wrote = true
	n, err := f.w.Write(p)
	if err == nil {
		_ = f.rc.Flush()
	}
	return n, err
}

// commandV2 is one command of protocol 2.
type commandV2 struct {
	name string
	// head is the part of a fetch that was read to know the command, written
	// anew with nothing in it but what we understand.
	head bytes.Buffer
	list listArgs
}

// listArgs are the arguments of ls-refs.
type listArgs struct {
	peel, symrefs, unborn bool
	prefixes              []string
}

// maxPrefixes is where ls-refs stops to filter, as git does: more prefixes
// only mean that more is listed.
const maxPrefixes = 1 << 12

// parseCommandV2 reads a command and its capabilities, and all of ls-refs.
func parseCommandV2(body io.Reader, objectFormat string) (*commandV2, error) {
	in := pktline.NewReader(body, maxSection)
	cmd := &commandV2{}
	head := pktline.NewWriter(&cmd.head)
	format := "sha1"
	for {
		p, err := in.Next()
		if err != nil {
			return nil, sectionError(err)
		}
		if p.Kind != pktline.Data {
			if cmd.name == "" || p.Kind == pktline.End {
				return nil, fmt.Errorf("%w: no command", errRequest)
			}
			if format != objectFormat {
				return nil, fmt.Errorf("%w: the repository has object format %s", errRequest, objectFormat)
			}
			if p.Kind == pktline.Flush {
				return cmd, head.Flush()
			}
			break
		}
		line := p.Text()
		key, value, _ := strings.Cut(line, "=")
		switch {
		case key == "command" && cmd.name == "" && (value == "ls-refs" || value == "fetch"):
			cmd.name = value
		case key == "object-format":
			format = value
		case key == "agent", key == "session-id":
			continue
		default:
			return nil, fmt.Errorf("%w: %s is not served", errRequest, core.Untrusted(line).Quote())
		}
		if err := head.Printf("%s\n", line); err != nil {
			return nil, err
		}
	}
	if cmd.name == "fetch" {
		return cmd, head.Delim()
	}
	return cmd, cmd.list.parse(in)
}

func (a *listArgs) parse(in *pktline.Reader) error {
	for {
		p, err := in.Next()
		switch {
		case err != nil:
			return sectionError(err)
		case p.Kind == pktline.Flush:
			return nil
		case p.Kind != pktline.Data:
			return fmt.Errorf("%w: a packet that ls-refs does not have", errRequest)
		}
		prefix, isPrefix := strings.CutPrefix(p.Text(), "ref-prefix ")
		switch line := p.Text(); {
		case line == "peel":
			a.peel = true
		case line == "symrefs":
			a.symrefs = true
		case line == "unborn":
			a.unborn = true
		case isPrefix && len(a.prefixes) < maxPrefixes:
			a.prefixes = append(a.prefixes, prefix)
		case isPrefix:
			a.prefixes = []string{""}
		default:
			return fmt.Errorf("%w: ls-refs has no argument %s", errRequest, core.Untrusted(line).Quote())
		}
	}
}

func (a *listArgs) wants(name string) bool {
	for _, prefix := range a.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return len(a.prefixes) == 0
}

// listRefs answers ls-refs.
func listRefs(out *pktline.Writer, refs relay.Refs, args listArgs) error {
	var lines []string
	born := false
	for _, ref := range refs.List {
		if ref.Name == refs.Head && refs.Head != "" {
			born = true
			if args.wants("HEAD") {
				line := string(ref.OID) + " HEAD"
				if args.symrefs {
					line += " symref-target:" + refs.Head
				}
				lines = append([]string{line}, lines...)
			}
		}
		if !args.wants(ref.Name) {
			continue
		}
		line := string(ref.OID) + " " + ref.Name
		if args.peel && ref.Peeled != "" {
			line += " peeled:" + string(ref.Peeled)
		}
		lines = append(lines, line)
	}
	if !born && args.unborn && refs.Head != "" && args.wants("HEAD") {
		lines = append([]string{"unborn HEAD symref-target:" + refs.Head}, lines...)
	}
	for _, line := range lines {
		if err := out.Printf("%s\n", line); err != nil {
			return err
		}
	}
	return out.Flush()
}

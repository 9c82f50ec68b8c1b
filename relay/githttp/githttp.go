package githttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/pktline"
)

// Repository is one repository of one box, as the endpoint serves it.
type Repository interface {
	// ObjectFormat is "sha1" or "sha256".
	ObjectFormat() string
	// Refs lists what the box sees before a push, or before a fetch.
	Refs(ctx context.Context, forPush bool) (relay.Refs, error)
	// Refresh brings the refs for a fetch up to date with the remote.
	Refresh(ctx context.Context) error
	// Serve answers a git-upload-pack request of the given protocol ("",
	// "version=1" or "version=2").
	Serve(ctx context.Context, protocol string, body io.Reader, out io.Writer) error
	// Check refuses, with a reason, an update that is never done. It runs
	// before the pack is read.
	Check(policy.RefUpdate) (reason string)
	// Receive takes the pack in, decides and carries out a push, and tells the
	// pusher through say what it waits for, once it has read the pack to its end.
	// The results are in the order of the updates; an error fails them all.
	Receive(ctx context.Context, push Push, say func(line string)) ([]Result, error)
}

// Push is a push as the box sent it.
type Push struct {
	Updates []policy.RefUpdate
	Atomic  bool
	// Pack is the pack as it comes in, nil when none is sent. It is to be judged
	// before git reads it.
	Pack io.Reader
}

// Result is what became of one update; an empty Reason means that it is done.
type Result struct{ Reason string }

// Bounds on one request.
const (
	// maxUpdates is how many refs one push may move.
	maxUpdates = 16
	// maxSection bounds the packets before the pack.
	maxSection = 256 << 10
	// maxNegotiation bounds the inflated body of a fetch.
	maxNegotiation = 16 << 20
	// keepAlive is the longest silence towards a pusher that waits.
	keepAlive = 10 * time.Second
)

// Endpoint serves one repository to one box. It is made per request.
type Endpoint struct {
	Repo Repository
	// MaxPack is how many inflated bytes the body of a push may have.
	MaxPack int64
}

const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
	agent       = "agent=agentbox"
)

// InfoRefs serves GET info/refs?service=…, the first request of every fetch
// and push. Failures are told in git's own way, as an ERR packet.
func (e *Endpoint) InfoRefs(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	service := query.Get("service")
	if len(query) != 1 || len(query["service"]) != 1 || (service != uploadPack && service != receivePack) {
		http.Error(w, "only the smart HTTP protocol is served", http.StatusForbidden)
		return
	}
	protocol := protocolOf(r)
	if service == receivePack && protocol == version2 {
		protocol = "" // there is no version 2 of pushing; git falls back by itself
	}
	noStore(w, "application/x-"+service+"-advertisement")
	out := pktline.NewWriter(w)
	if protocol != version2 {
		_ = out.Printf("# service=%s\n", service)
		_ = out.Flush()
	}
	if err := e.advertise(r.Context(), out, service, protocol); err != nil {
		_ = out.Printf("ERR %s\n", oneLine(err.Error()))
	}
}

func (e *Endpoint) advertise(ctx context.Context, out *pktline.Writer, service, protocol string) error {
	if service == uploadPack {
		if err := e.Repo.Refresh(ctx); err != nil {
			return err
		}
	}
	if protocol == version2 {
		return e.advertiseV2(out)
	}
	refs, err := e.Repo.Refs(ctx, service == receivePack)
	if err != nil {
		return err
	}
	if protocol == version1 {
		if err := out.Printf("version 1\n"); err != nil {
			return err
		}
	}
	caps := pushCapabilities
	if service == uploadPack {
		caps = fetchCapabilities
		if refs.Head != "" && hasRef(refs.List, refs.Head) {
			caps += " symref=HEAD:" + refs.Head
		}
	} else {
		refs.Head = ""
	}
	return writeRefs(out, refs, caps+" object-format="+e.Repo.ObjectFormat()+" "+agent, service == receivePack)
}

// writeRefs writes an advertisement of protocol 0 (gitprotocol-pack(5)).
func writeRefs(out *pktline.Writer, refs relay.Refs, caps string, forPush bool) error {
	lines := make([]string, 0, len(refs.List)+len(refs.Have)+1)
	for _, ref := range refs.List {
		if ref.Name == refs.Head {
			lines = append([]string{string(ref.OID) + " HEAD"}, lines...)
		}
		lines = append(lines, string(ref.OID)+" "+ref.Name)
		if ref.Peeled != "" && !forPush {
			lines = append(lines, string(ref.Peeled)+" "+ref.Name+"^{}")
		}
	}
	if forPush {
		for _, oid := range refs.Have {
			lines = append(lines, string(oid)+" .have")
		}
	}
	if len(lines) == 0 {
		n := 40
		if strings.Contains(caps, "object-format=sha256") {
			n = 64
		}
		lines = []string{string(core.ZeroID(n)) + " capabilities^{}"}
	}
	for i, line := range lines {
		if i == 0 {
			line += "\x00" + caps
		}
		if err := out.Printf("%s\n", line); err != nil {
			return err
		}
	}
	for _, oid := range refs.Shallow {
		if err := out.Printf("shallow %s\n", oid); err != nil {
			return err
		}
	}
	return out.Flush()
}

func hasRef(list []relay.Ref, name string) bool {
	for _, ref := range list {
		if ref.Name == name {
			return true
		}
	}
	return false
}

// The values of the Git-Protocol header that we know; all else means version 0.
const (
	version1 = "version=1"
	version2 = "version=2"
)

func protocolOf(r *http.Request) string {
	switch p := r.Header.Get("Git-Protocol"); p {
	case version1, version2:
		return p
	}
	return ""
}

func noStore(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
}

// oneLine makes a text fit a packet that git prints on one line. Parts of it
// that are another's were quoted where the text was made.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	return text[:min(len(text), 1000)]
}

// fail answers a request that could not be understood.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusBadRequest
	switch {
	case errors.Is(err, errEncoding):
		code = http.StatusUnsupportedMediaType
	case errors.Is(err, errTooLarge):
		code = http.StatusRequestEntityTooLarge
	}
	http.Error(w, oneLine(err.Error()), code)
}

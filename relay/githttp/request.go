package githttp

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay/pktline"
)

// pushCapabilities is what a pusher may ask for (gitprotocol-capabilities(5)).
// Deletes are offered so that their refusal can give our reason; push options
// so that a push that has some goes through, without them.
const pushCapabilities = "report-status delete-refs side-band-64k quiet atomic ofs-delta push-options"

// request is the decoded command section of a push.
type request struct {
	updates []policy.RefUpdate
	// probe: the client sent a lone flush to find out whether it may send at all.
	probe       bool
	atomic      bool
	report      bool
	sideBand    bool
	pushOptions bool
}

// hasPack tells whether a pack follows: it does as soon as one update has an
// object to move to.
func (r request) hasPack() bool {
	for _, u := range r.updates {
		if !u.New.IsZero() {
			return true
		}
	}
	return false
}

// parseRequest decodes the section before the pack (gitprotocol-pack(5),
// "Reference Update Request"): shallow lines, commands, a flush, and push
// options where they were asked for. It reads not a byte further. Lines that
// tell where the pusher's history is cut are checked and dropped: whether a
// pack is whole is found out when it is imported.
func parseRequest(body io.Reader, objectFormat string) (request, error) {
	in := pktline.NewReader(body, maxSection)
	var req request
	seen := map[string]bool{}
	for {
		p, err := in.Next()
		if err != nil {
			return request{}, sectionError(err)
		}
		if p.Kind == pktline.Flush {
			break
		}
		if p.Kind != pktline.Data {
			return request{}, fmt.Errorf("%w: a packet that pushes do not have", errRequest)
		}
		line := p.Text()
		if cut, ok := strings.CutPrefix(line, "shallow "); ok && len(req.updates) == 0 {
			if err := checkID(cut, objectFormat); err != nil {
				return request{}, err
			}
			continue
		}
		if len(req.updates) == 0 {
			var caps string
			var ok bool
			if line, caps, ok = strings.Cut(line, "\x00"); !ok {
				return request{}, fmt.Errorf("%w: the first command lacks capabilities", errRequest)
			}
			if strings.HasPrefix(line, "push-cert") {
				return request{}, fmt.Errorf("%w: signed pushes are not taken; push without --signed", errRequest)
			}
			if err := req.want(caps, objectFormat); err != nil {
				return request{}, err
			}
		}
		u, err := parseCommand(line, objectFormat)
		if err != nil {
			return request{}, err
		}
		if seen[u.Ref] {
			return request{}, fmt.Errorf("%w: %s stands twice", errRequest, core.Untrusted(u.Ref).Quote())
		}
		seen[u.Ref] = true
		req.updates = append(req.updates, u)
	}
	if len(req.updates) == 0 {
		return request{probe: true}, nil
	}
	return req, dropOptions(in, req.pushOptions)
}

func dropOptions(in *pktline.Reader, wanted bool) error {
	for wanted {
		p, err := in.Next()
		switch {
		case err != nil:
			return sectionError(err)
		case p.Kind == pktline.Flush:
			return nil
		case p.Kind != pktline.Data:
			return fmt.Errorf("%w: a packet that pushes do not have", errRequest)
		}
	}
	return nil
}

// want takes the capabilities that the pusher chose.
func (r *request) want(caps, objectFormat string) error {
	if strings.ContainsFunc(caps, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("%w: capabilities %s", errRequest, core.Untrusted(caps).Quote())
	}
	format := "sha1" // what is meant where none is named
	for _, name := range strings.Fields(caps) {
		key, value, _ := strings.Cut(name, "=")
		switch key {
		case "report-status":
			r.report = true
		case "side-band-64k":
			r.sideBand = true
		case "atomic":
			r.atomic = true
		case "push-options":
			r.pushOptions = true
		case "object-format":
			format = value
		case "delete-refs", "quiet", "ofs-delta", "agent", "session-id":
		default:
			return fmt.Errorf("%w: capability %s was not offered", errRequest, core.Untrusted(name).Quote())
		}
	}
	if format != objectFormat {
		return fmt.Errorf("%w: the repository has object format %s", errRequest, objectFormat)
	}
	return nil
}

// parseCommand decodes "<old> <new> <ref>".
func parseCommand(line, objectFormat string) (policy.RefUpdate, error) {
	part := strings.SplitN(line, " ", 3)
	if len(part) != 3 {
		return policy.RefUpdate{}, fmt.Errorf("%w: not a command", errRequest)
	}
	for _, id := range part[:2] {
		if err := checkID(id, objectFormat); err != nil {
			return policy.RefUpdate{}, err
		}
	}
	if !validRef(part[2]) {
		return policy.RefUpdate{}, fmt.Errorf("%w: ref %s", errRequest, core.Untrusted(part[2]).Quote())
	}
	return policy.RefUpdate{Ref: part[2], Old: core.ObjectID(part[0]), New: core.ObjectID(part[1])}, nil
}

func checkID(id, objectFormat string) error {
	want := 40
	if objectFormat == "sha256" {
		want = 64
	}
	if _, err := core.ParseObjectID(id); err != nil || len(id) != want {
		return fmt.Errorf("%w: object id %s", errRequest, core.Untrusted(id).Quote())
	}
	return nil
}

// validRef holds a full ref name to git-check-ref-format(1). Whether a box may
// move that ref is for the policy to say.
func validRef(ref string) bool {
	if !strings.HasPrefix(ref, "refs/") || len(ref) > 255 ||
		strings.Contains(ref, "..") || strings.Contains(ref, "@{") || strings.HasSuffix(ref, ".") {
		return false
	}
	for _, c := range []byte(ref) {
		if c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(ref, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

func sectionError(err error) error {
	switch {
	case errors.Is(err, errTooLarge), errors.Is(err, pktline.ErrTooLong):
		return errTooLarge
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends too early", errRequest)
	}
	return fmt.Errorf("%w: %w", errRequest, err)
}

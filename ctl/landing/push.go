package landing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/pktline"
)

// pushTime bounds one push: nobody is asked on this path, so only a large pack
// takes long.
const pushTime = 10 * time.Minute

// push hands the updates in; held are commits that the relay has taken before.
// It returns what the relay refused, by branch; an error says that the push did
// not get as far as an answer, or that the same push may go through later.
//
// It speaks gitprotocol-pack(5) itself: `git push` would start several
// processes on both sides to find out what is known here.
func push(ctx context.Context, repo Repo, updates []update, held []core.ObjectID) (map[core.BranchName]string, error) {
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	answer, err := send(ctx, repo, updates, held)
	if err == nil && answer.unpack != "" && len(held) > 0 {
		// The host may have made its gate anew, without what it once took.
		answer, err = send(ctx, repo, updates, nil)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("hand in commits: %w", err)
	}
	for branch, why := range answer.refused {
		if word, _, _ := strings.Cut(why, ":"); word == wire.RefusalBusy {
			return nil, fmt.Errorf("hand in %s: %s", branch, why)
		}
	}
	return answer.refused, nil
}

// send makes one request, whose pack is written while it is sent. A pack that
// breaks off breaks the request off.
func send(ctx context.Context, repo Repo, updates []update, held []core.ObjectID) (report, error) {
	var head bytes.Buffer
	if err := writeCommands(&head, updates); err != nil {
		return report{}, err
	}
	tips := make([]core.ObjectID, len(updates))
	for i, u := range updates {
		tips[i] = u.oid
	}
	ctx, cancel := context.WithCancel(ctx)
	pack, w := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		w.CloseWithError(writePack(ctx, w, repo, tips, held))
	}()
	defer func() {
		cancel()
		_ = pack.Close() // ends the process; the error that matters is known
		<-packed
	}()
	return post(ctx, repo.Endpoint, io.MultiReader(&head, pack), updates)
}

// writeCommands writes what stands before the pack (gitprotocol-pack(5),
// "Reference Update Request and Packfile Transfer"). The old ids are what is
// believed here; the relay goes by its own refs.
func writeCommands(w io.Writer, updates []update) error {
	out := pktline.NewWriter(w)
	for i, u := range updates {
		old, format := u.landed, "sha1"
		if len(u.oid) == 64 {
			format = "sha256"
		}
		if len(old) != len(u.oid) {
			old = core.ZeroID(len(u.oid))
		}
		capabilities := ""
		if i == 0 {
			capabilities = "\x00report-status side-band-64k agent=agentbox-ctl object-format=" + format
		}
		if err := out.Printf("%s %s %s%s%s", old, u.oid, wire.LandingPrefix, u.branch, capabilities); err != nil {
			return err
		}
	}
	return out.Flush()
}

// client asks the relay's address in the box: through no proxy, to nowhere else
// than was said, and never on a connection that may have died since.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

const (
	requestType = "application/x-git-receive-pack-request"
	resultType  = "application/x-git-receive-pack-result"
)

// post sends a push to the endpoint and reads the answer.
func post(ctx context.Context, endpoint string, body io.Reader, updates []update) (report, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/git-receive-pack", body)
	if err != nil {
		return report{}, err
	}
	r.Header.Set("Content-Type", requestType)
	r.Header.Set("Accept", resultType)
	r.Header.Set("User-Agent", "agentbox-ctl")
	res, err := client.Do(r)
	var broken *url.Error // repeats method and address
	if errors.As(err, &broken) {
		err = broken.Err
	}
	if err != nil {
		return report{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return report{}, declined(res)
	}
	if got := res.Header.Get("Content-Type"); got != resultType {
		return report{}, fmt.Errorf("%w: it is %s", errReport, core.Untrusted(got).Quote())
	}
	return readReport(res.Body, updates)
}

const declinedCap = 8 << 10

// declined puts an answer that is no report into words: the relay's own, in
// JSON or as text.
func declined(res *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(res.Body, declinedCap)) // the status alone says enough
	words := string(text)
	var said wire.Error
	if json.Unmarshal(text, &said) == nil {
		words = strings.TrimSuffix(said.Error+"; "+said.Hint, "; ")
	}
	if words = plain(words); words == "" {
		words = "no reason given"
	}
	return fmt.Errorf("the relay answers %d: %s", res.StatusCode, words)
}

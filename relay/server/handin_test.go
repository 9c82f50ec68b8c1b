package server_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/madarco/agentbox/relay/pktline"
)

// TestALandingGoesByTheRelaysOwnRefs: a box's daemon hands in without having
// asked for refs first, so the old value that it names may be stale or made up.
func TestALandingGoesByTheRelaysOwnRefs(t *testing.T) {
	w := newWorld(t)
	base := w.git(w.clone, "rev-parse", "HEAD")
	for name, old := range map[string]string{
		"none": strings.Repeat("0", 40), "one that nobody has": strings.Repeat("a", 40), "the base": base,
	} {
		t.Run(name, func(t *testing.T) {
			tip := w.commit(w.clone, "with the old value "+name)
			answer := w.handIn(old, tip, base)
			if !strings.Contains(answer, "unpack ok\n") || !strings.Contains(answer, "ok refs/agentbox/landing/agentbox/one\n") {
				t.Errorf("answer %q", answer)
			}
			if got := w.git(w.user, "rev-parse", "agentbox/one"); got != tip {
				t.Errorf("the user's branch is at %s, want %s", got, tip)
			}
		})
	}
}

// handIn makes the request of a hand-in, and returns the body of the answer.
func (w *world) handIn(old, tip, base string) string {
	w.t.Helper()
	var body bytes.Buffer
	out := pktline.NewWriter(&body)
	if err := out.Printf("%s %s refs/agentbox/landing/agentbox/one\x00report-status side-band-64k agent=box object-format=sha1", old, tip); err != nil {
		w.t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		w.t.Fatal(err)
	}
	pack := w.cmd(w.clone, "pack-objects", "--revs", "--thin", "--stdout", "-q", "--delta-base-offset")
	pack.Stdin, pack.Stdout = strings.NewReader(tip+"\n^"+base+"\n"), &body
	if err := pack.Run(); err != nil {
		w.t.Fatal(err)
	}
	res, err := http.Post(w.url+"/git-receive-pack", "application/x-git-receive-pack-request", &body)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %q, %v", res.Status, answer, err)
	}
	return string(answer)
}

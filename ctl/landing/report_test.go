package landing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay/pktline"
)

const landingRef = "refs/agentbox/landing/"

// lines are packets with a flush behind them.
func lines(all ...string) string {
	var out bytes.Buffer
	w := pktline.NewWriter(&out)
	for _, line := range all {
		_ = w.Printf("%s\n", line)
	}
	_ = w.Flush()
	return out.String()
}

// banded is text in one band, without a flush.
func banded(band byte, text string) string {
	var out bytes.Buffer
	_, _ = io.WriteString(pktline.NewWriter(&out).Band(band), text)
	return out.String()
}

func answered(all ...string) string { return banded(1, lines(all...)) + "0000" }

func TestReadReport(t *testing.T) {
	updates := []update{{branch: "a", oid: oid(1)}, {branch: "b", oid: oid(2)}}
	both := answered("unpack ok", "ok "+landingRef+"a", "ok "+landingRef+"b")
	for name, c := range map[string]struct {
		answer string
		want   report
	}{
		"both taken":  {both, report{}},
		"other order": {answered("unpack ok", "ok "+landingRef+"b", "ok "+landingRef+"a"), report{}},
		"one refused": {
			answered("unpack ok", "ok "+landingRef+"a", "ng "+landingRef+"b held: a (odd) name"),
			report{refused: map[core.BranchName]string{"b": "held: a (odd) name"}},
		},
		"pack refused": {
			answered("unpack too large", "ng "+landingRef+"a too large", "ng "+landingRef+"b"),
			report{unpack: "too large", refused: map[core.BranchName]string{"a": "too large", "b": "the relay gave no reason"}},
		},
		"words that move the cursor": {
			answered("unpack ok", "ok "+landingRef+"a", "ng "+landingRef+"b \x1b[2Jgone\u202e"),
			report{refused: map[core.BranchName]string{"b": "\ufffd[2Jgone\ufffd"}},
		},
		"progress between":   {banded(2, "checking\n") + both, report{}},
		"report in pieces":   {pieces(both), report{}},
		"without line feeds": {banded(1, "000dunpack ok001eok refs/agentbox/landing/a001eok refs/agentbox/landing/b0000") + "0000", report{}},
	} {
		got, err := readReport(strings.NewReader(c.answer), updates)
		if err != nil || got.unpack != c.want.unpack || !maps.Equal(got.refused, c.want.refused) {
			t.Errorf("%s: readReport = %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// pieces cuts the report of an answer into packets of one byte.
func pieces(answer string) string {
	p, _ := pktline.NewReader(strings.NewReader(answer), answerCap).Next()
	var all strings.Builder
	for _, b := range p.Data[1:] {
		fmt.Fprintf(&all, "0006\x01%c", b)
	}
	return all.String() + "0000"
}

func TestReadReportRefuses(t *testing.T) {
	updates := []update{{branch: "a", oid: oid(1)}, {branch: "b", oid: oid(2)}}
	a, b := "ok "+landingRef+"a", "ok "+landingRef+"b"
	whole := answered("unpack ok", a, b)
	for name, answer := range map[string]string{
		"nothing":                 "",
		"a web page":              "<html>welcome</html>",
		"only a flush":            "0000",
		"no bands":                lines("unpack ok", a, b),
		"an empty packet":         "0004" + whole,
		"another band":            banded(7, "x") + whole,
		"a delimiter":             "0001" + whole,
		"no flush around":         strings.TrimSuffix(whole, "0000"),
		"no flush inside":         banded(1, strings.TrimSuffix(lines("unpack ok", a, b), "0000")) + "0000",
		"cut":                     whole[:len(whole)/2],
		"more behind the end":     whole + "0000",
		"more behind the report":  banded(1, lines("unpack ok", a, b)+"0000") + "0000",
		"bytes behind the end":    whole + "x",
		"a branch left out":       answered("unpack ok", a),
		"a branch twice":          answered("unpack ok", a, b, a),
		"a branch twice, no b":    answered("unpack ok", a, a),
		"another branch":          answered("unpack ok", a, b, "ok "+landingRef+"c"),
		"another ref":             answered("unpack ok", a, b, "ok refs/heads/b"),
		"no word on the pack":     answered(a, b),
		"taken without its pack":  answered("unpack failed", a, b),
		"neither ok nor ng":       answered("unpack ok", a, "maybe "+landingRef+"b"),
		"ok, but":                 answered("unpack ok", a, b+" but"),
		"the relay's last words":  banded(3, "out of memory\n") + "0000",
		"a report without end":    banded(1, strings.Repeat("0009unpac", reportCap)),
		"progress without end":    strings.Repeat(banded(2, strings.Repeat("x", 60000)), 20) + whole,
		"empty packets for ever":  strings.Repeat("0005\x02", answerCap),
		"a length that is no hex": "zzzz" + whole,
	} {
		if got, err := readReport(strings.NewReader(answer), updates); err == nil {
			t.Errorf("%s: readReport = %q", name, got)
		} else if len(err.Error()) > 600 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

func TestTheRelaysOwnFailureIsShown(t *testing.T) {
	_, err := readReport(strings.NewReader(banded(3, "out of memory\nreally\n")), nil)
	if err == nil || errors.Is(err, errReport) || !strings.HasSuffix(err.Error(), ": out of memory") {
		t.Errorf("readReport = %v", err)
	}
}

func TestComplaintIsTheFirst(t *testing.T) {
	for text, want := range map[string]string{
		"warning: x\nfatal: not a git repository\nfatal: y\n": "not a git repository",
		"error: bad tree\nfatal: x\n":                         "bad tree",
		"fatal: " + strings.Repeat("é", 1000):                 strings.Repeat("é", plainCap) + "…",
		"":                                                    "git gave no reason",
	} {
		if got := complaint(text); got != want {
			t.Errorf("complaint(%.80q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzReadReport holds that a branch counts as taken only where the answer
// says so, and that what is kept of an answer is bounded.
func FuzzReadReport(f *testing.F) {
	f.Add([]byte(answered("unpack ok", "ok "+landingRef+"b")))
	f.Add([]byte(banded(2, "x") + answered("unpack no", "ng "+landingRef+"b held")))
	f.Add([]byte(pieces(answered("unpack ok", "ng "+landingRef+"b"))))
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := readReport(bytes.NewReader(answer), []update{{branch: "b", oid: oid(2)}})
		why, refused := got.refused["b"]
		switch {
		case err != nil:
		case refused && (why == "" || len(why) > 4*(plainCap+1)):
			t.Errorf("reason %q", why)
		case !refused && (got.unpack != "" || !bytes.Contains(answer, []byte("o")) || !bytes.HasSuffix(answer, []byte("0000"))):
			t.Errorf("%q counts as taken", answer)
		}
	})
}

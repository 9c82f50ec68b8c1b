package landing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/pktline"
)

const (
	// answerCap bounds all packets of an answer, most of which are repeated
	// progress, and reportCap what is kept of them: a line per branch.
	answerCap = 1 << 20
	reportCap = 64 << 10
	// plainCap is the length in runes up to which others' words are shown.
	plainCap = 300
)

var errReport = errors.New("the relay's answer is no report of a hand-in")

// report is what the relay says about a hand-in.
type report struct {
	// unpack is why the pack as a whole was not taken, empty if it was.
	unpack string
	// refused are the reasons by branch.
	refused map[core.BranchName]string
}

// readReport reads the bands of an answer to their end (gitprotocol-pack(5),
// "Report Status"). An answer that does not speak once about every update is
// none, and neither is one that was cut or has more behind it.
func readReport(body io.Reader, updates []update) (report, error) {
	in := pktline.NewReader(body, answerCap)
	var text []byte
	for {
		p, err := in.Next()
		if err != nil {
			return report{}, notWhole(err)
		}
		if p.Kind == pktline.Flush {
			break
		}
		if p.Kind != pktline.Data || len(p.Data) == 0 {
			return report{}, fmt.Errorf("%w: a packet without a band", errReport)
		}
		switch p.Data[0] {
		case pktline.BandData:
			if text = append(text, p.Data[1:]...); len(text) > reportCap {
				return report{}, fmt.Errorf("%w: it is too long", errReport)
			}
		case pktline.BandProgress:
		case pktline.BandError:
			return report{}, fmt.Errorf("the relay says: %s", plain(string(p.Data[1:])))
		default:
			return report{}, fmt.Errorf("%w: band %d", errReport, p.Data[0])
		}
	}
	if err := ended(in); err != nil {
		return report{}, err
	}
	return parseReport(text, updates)
}

func parseReport(text []byte, updates []update) (report, error) {
	in := pktline.NewReader(bytes.NewReader(text), reportCap)
	first, err := in.Next()
	if err != nil {
		return report{}, notWhole(err)
	}
	unpack, ok := strings.CutPrefix(first.Text(), "unpack ")
	if !ok {
		return report{}, fmt.Errorf("%w: it says nothing about the pack", errReport)
	}
	r := report{refused: map[core.BranchName]string{}}
	if unpack != "ok" {
		r.unpack = reason(unpack)
	}
	open := map[core.BranchName]bool{}
	for _, u := range updates {
		open[u.branch] = true
	}
	for {
		p, err := in.Next()
		switch {
		case err != nil:
			return report{}, notWhole(err)
		case p.Kind == pktline.Flush && len(open) > 0:
			return report{}, fmt.Errorf("%w: it leaves a branch out", errReport)
		case p.Kind == pktline.Flush:
			return r, ended(in)
		}
		if err := r.take(p.Text(), open); err != nil {
			return report{}, err
		}
	}
}

// take reads "ok <ref>" or "ng <ref> <reason>" about one of the open branches.
func (r report) take(line string, open map[core.BranchName]bool) error {
	verdict, rest, _ := strings.Cut(line, " ")
	ref, why, _ := strings.Cut(rest, " ")
	name, landing := strings.CutPrefix(ref, wire.LandingPrefix)
	branch := core.BranchName(name)
	if !landing || !open[branch] {
		return fmt.Errorf("%w: %s was not asked about", errReport, core.Untrusted(ref).Quote())
	}
	delete(open, branch)
	switch {
	case verdict == "ng":
		r.refused[branch] = reason(why)
	case verdict != "ok", r.unpack != "", why != "":
		return fmt.Errorf("%w: %s", errReport, core.Untrusted(line).Quote())
	}
	return nil
}

func reason(words string) string {
	if words = plain(words); words == "" {
		return "the relay gave no reason"
	}
	return words
}

// ended wants the end of the packets.
func ended(in *pktline.Reader) error {
	switch _, err := in.Next(); {
	case err == nil:
		return fmt.Errorf("%w: it has more behind its end", errReport)
	case !errors.Is(err, io.EOF):
		return notWhole(err)
	}
	return nil
}

func notWhole(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", errReport, err)
}

// plain is the first line of words that were said by another, fit to be shown.
func plain(words string) string {
	words, _, _ = strings.Cut(strings.TrimSpace(words), "\n")
	var shown []rune
	for _, r := range words {
		if len(shown) == plainCap {
			return string(shown) + "…"
		}
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		shown = append(shown, r)
	}
	return string(shown)
}

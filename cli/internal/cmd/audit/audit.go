// Package audit is the command `agentbox audit`: what was asked, decided and
// done for boxes, and whether the record of it holds.
//
// Invariants:
//   - It reads the relay's files itself and writes none, so that it works
//     without a relay, and believes none.
//   - What an entry says of a box is the box's text, and is quoted.
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/headfile"
	"github.com/madarco/agentbox/relay/store/sqlite"
)

// Options are the options of audit.
type Options struct {
	Streams *streams.Streams
	Home    func() (core.Home, error)
	Boxes   func() (all []core.Box, project string, err error)
	Box     func(ref string) (core.Box, error)
	Now     func() time.Time

	Ref string
	// Since is a number, how long ago, or a time.
	Since  string
	Verify bool
	JSON   output.JSON
}

// New parses the command line of audit.
func New(f *factory.Factory, run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Home: f.Home, Boxes: f.Boxes, Box: f.Box, Now: f.Now}
	return &cli.Command{
		Name:        "audit",
		Usage:       "show what was asked, decided and done for boxes",
		ArgsUsage:   "[box]",
		Description: "Of a box that is gone, give the id. What a box says is quoted. It works without a relay.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "verify", Usage: "check that nothing was changed or cut off since it was written", Destination: &o.Verify, Local: true},
			&cli.StringFlag{Name: "since", Usage: "entries after this `NUMBER`, or not older than 10m or 2026-01-02T15:04:05Z", Destination: &o.Since, Local: true},
			args.JSON(&o.JSON),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 1); err != nil {
				return err
			}
			o.Ref = c.Args().First()
			return run(ctx, o)
		},
	}
}

// Run shows the entries, or verifies them.
func Run(ctx context.Context, o *Options) (err error) {
	home, err := o.Home()
	if err != nil {
		return err
	}
	if o.Verify {
		return verify(ctx, o, home)
	}
	if err := output.Check[wire.AuditEntry](o.JSON); err != nil {
		return err
	}
	wanted, err := wanted(o)
	if err != nil {
		return err
	}
	found, err := read(ctx, home, wanted)
	if err != nil {
		return err
	}
	if o.JSON.On {
		return output.List(o.Streams.Out, o.JSON, o.Streams.OutTTY, found)
	}
	if len(found) == 0 {
		o.Streams.Note("nothing was written down")
		return nil
	}
	return output.Table(o.Streams.Out, rows(found, names(o)))
}

// filter is which entries are wanted.
type filter struct {
	after int64
	from  time.Time
	box   string
}

func wanted(o *Options) (w filter, err error) {
	if n, err := strconv.ParseInt(o.Since, 10, 64); err == nil && n >= 0 {
		w.after = n
	} else if w.from, err = args.Time(o.Since, o.Now()); err != nil {
		return w, err
	}
	if o.Ref == "" {
		return w, nil
	}
	box, err := o.Box(o.Ref)
	if err != nil && core.ValidBoxID(o.Ref) {
		box.ID, err = o.Ref, nil // it is gone, and what it did is not
	}
	w.box = box.ID
	return w, err
}

// page is how many entries are read at a time.
const page = 1000

func read(ctx context.Context, home core.Home, w filter) (found []wire.AuditEntry, err error) {
	log, err := sqlite.OpenLog(ctx, home.RelayDB())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // only read
	for {
		next, err := log.Audit(ctx, w.after, page)
		if err != nil || len(next) == 0 {
			return found, err
		}
		w.after = next[len(next)-1].Seq
		found = append(found, slices.DeleteFunc(next, func(e wire.AuditEntry) bool {
			return e.At.Before(w.from) || w.box != "" && e.BoxID != w.box
		})...)
	}
}

// names are those of the boxes that there are, by id.
func names(o *Options) map[string]string {
	byID := map[string]string{}
	all, _, err := o.Boxes()
	if err != nil {
		o.Streams.Warn("warning: boxes are shown by id: %v", err)
	}
	for _, b := range all {
		byID[b.ID] = string(b.Name)
	}
	return byID
}

func rows(entries []wire.AuditEntry, names map[string]string) [][]string {
	out := [][]string{{"N", "TIME", "BOX", "WHO", "WHAT", "REASON"}}
	for _, e := range entries {
		box := e.BoxID
		if name := names[e.BoxID]; name != "" {
			box = name
		}
		what, reason := told(e)
		out = append(out, []string{strconv.FormatInt(e.Seq, 10), e.At.Local().Format(time.DateTime), box, e.Actor, what, reason})
	}
	return out
}

// maxReason bounds, in runes, what is shown of a text in an entry.
const maxReason = 160

// told is what happened and why. Of an entry without any such words it is the
// whole detail.
func told(e wire.AuditEntry) (what, reason string) {
	var d struct{ Method, Reason, Message, Summary, Note, Result string }
	if json.Unmarshal(e.Detail, &d) != nil {
		d.Reason = string(e.Detail)
	}
	what = e.Action
	if d.Method != "" {
		what += " " + method(d.Method)
	}
	for _, text := range []string{d.Note, d.Reason, d.Summary, d.Message, d.Result, string(e.Detail)} {
		if text != "" {
			return what, core.Untrusted(text).QuoteMax(maxReason)
		}
	}
	return what, ""
}

// method is a method's name, which is the box's text where there is no such one.
func method(name string) string {
	odd := func(r rune) bool { return r != '.' && r != '-' && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') }
	if len(name) > 40 || strings.ContainsFunc(name, odd) {
		return core.Untrusted(name).Quote()
	}
	return name
}

// Verified is what --verify found.
type Verified struct {
	// Entries is how many there are, Hash that of the last one.
	Entries int64  `json:"entries"`
	Hash    string `json:"hash"`
}

func verify(ctx context.Context, o *Options, home core.Home) error {
	if o.Ref != "" || o.Since != "" {
		return fail.Usagef("agentbox audit --verify", "--verify checks the whole log, not a part of it")
	}
	if err := output.Check[Verified](o.JSON); err != nil {
		return err
	}
	head, err := walk(ctx, home)
	if err != nil {
		return err
	}
	if o.JSON.On {
		return output.One(o.Streams.Out, o.JSON, o.Streams.OutTTY, Verified{head.Seq, head.Hash})
	}
	if head == (store.Head{}) {
		o.Streams.Note("nothing was written down")
		return nil
	}
	return output.Table(o.Streams.Out, [][]string{{"entries", strconv.FormatInt(head.Seq, 10)}, {"last", head.Hash}, {"state", "whole: nothing was changed or cut off"}})
}

// restored is what to do about a chain that does not hold.
const restored = "docs/audit.md says what that can mean; unless you put an older copy back yourself, something with your rights has changed it"

// walk verifies what there is, and says what to do where it does not hold.
func walk(ctx context.Context, home core.Home) (store.Head, error) {
	log, err := sqlite.OpenLog(ctx, home.RelayDB())
	if errors.Is(err, fs.ErrNotExist) {
		known, err := headfile.Read(home.AuditHead())
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && known == store.Head{}:
			return store.Head{}, nil
		case err != nil:
			return known, err
		}
		return known, fail.New(fail.Failed, restored, "%w: %s is gone, and entry %d was there already", store.ErrTampered, home.RelayDB(), known.Seq)
	}
	if err != nil {
		return store.Head{}, err
	}
	defer log.Close() //nolint:errcheck // only read
	head, err := headfile.Verify(ctx, log, home.AuditHead())
	switch {
	case errors.Is(err, store.ErrTampered):
		return head, fail.New(fail.Failed, restored, "verify %s: %w", home.RelayDB(), err)
	case errors.Is(err, headfile.ErrDamaged), errors.Is(err, fs.ErrNotExist):
		return head, fail.New(fail.Failed, "if nobody should have touched it, look who did; a relay that is started without it goes on, and writes that down",
			"verify %s: nothing says where it ended: %w", home.RelayDB(), err)
	}
	return head, err
}

package gitgate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay/pktline"
)

// receive feeds one pack to receive-pack with commands that we wrote. It
// returns git's reason for each ref that was refused, and for the pack under
// the name "unpack"; the texts may quote what a box chose.
func (h *Host) receive(ctx context.Context, cmd command, format string, updates []policy.RefUpdate, pack io.Reader) (map[string]string, error) {
	var head bytes.Buffer
	lines := pktline.NewWriter(&head)
	capabilities := "\x00report-status"
	if format != "sha1" {
		capabilities += " object-format=" + format
	}
	for _, u := range updates {
		old := u.Old
		if old == "" {
			old = zeroID(format)
		}
		if err := lines.Printf("%s %s %s%s", old, u.New, u.Ref, capabilities); err != nil {
			return nil, err
		}
		capabilities = ""
	}
	if err := lines.Flush(); err != nil {
		return nil, err
	}
	cmd.stdin = io.MultiReader(&head, pack)
	var refused map[string]string
	err := h.run.stream(ctx, cmd, func(out io.Reader) (err error) {
		refused, err = readReport(out, len(updates))
		return err
	})
	return refused, err
}

const reportLimit = 1 << 20

var errReport = errors.New("git gave no report")

// readReport reads "unpack …", then "ok ref" or "ng ref reason" per ref
// (gitprotocol-pack(5), "Report Status").
func readReport(out io.Reader, count int) (map[string]string, error) {
	in := pktline.NewReader(out, reportLimit)
	refused := map[string]string{}
	for n := 0; ; n++ {
		p, err := in.Next()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errReport, err)
		}
		if p.Kind == pktline.Flush {
			if n != count+1 && refused["unpack"] == "" {
				return nil, errReport
			}
			_, err := io.Copy(io.Discard, out)
			return refused, err
		}
		word, rest, _ := strings.Cut(p.Text(), " ")
		switch {
		case n == 0 && word == "unpack" && rest != "ok":
			refused["unpack"] = rest
		case n == 0 && word != "unpack":
			return nil, errReport
		case n > 0 && word == "ng":
			ref, reason, _ := strings.Cut(rest, " ")
			refused[ref] = reason
		}
	}
}

// intoUser is receive-pack in the user's repository, as its owner.
func (g *gate) intoUser(user *Repository) command {
	cmd := g.h.theirs(user, "receive-pack", "--stateless-rpc", user.CommonDir)
	cmd.gitDir = ""
	cmd.config = append(slices.Concat(noExecution, thrift),
		"receive.fsckObjects=false", // the gate has done it
		"receive.autogc=false", fmt.Sprintf("receive.unpackLimit=%d", unpackLimit), "receive.denyCurrentBranch=refuse",
		"core.bigFileThreshold="+bigFile, "receive.denyNonFastForwards=false", "core.alternateRefsCommand=true", "core.logAllRefUpdates=true",
	)
	cmd.env = append(cmd.env, g.signature()...)
	cmd.limits, cmd.deadline = g.h.largeBounds(), transfer
	return cmd
}

const (
	// fewObjects is what a landing may carry without a look at what else the
	// user's repository has.
	fewObjects = 2000
	// unpackLimit is up to how many objects are stored one by one, as
	// receive.unpackLimit says.
	unpackLimit = 100
)

var errManyObjects = errors.New("many objects")

// deliver moves a ref of the user's repository to a commit that the gate has
// accepted, with a pack that is made from the gate. The box's own pack may hold
// objects that no commit reaches and no check has looked at: git's recursion
// runs out of stack on some, as soon as the user's git tidies up. It returns
// git's reason when the ref was refused.
//
// What the ref is at is nearly always enough to leave out, and the user's
// repository has all that it reaches. Where that does not do, all that both
// repositories know is left out, and git looks whether the rest is whole.
func (g *gate) deliver(ctx context.Context, user *Repository, u policy.RefUpdate) (reason string, err error) {
	collecting := collectsGarbage(user)
	if !u.Old.IsZero() && !collecting && g.extend(ctx, user, u) == nil {
		return "", nil
	}
	have, err := g.bothHave(ctx, user, "")
	if err != nil {
		return "", err
	}
	take := g.intoUser(user)
	if collecting {
		take.config = append(take.config, "receive.unpackLimit=1")
	}
	p := packing{from: g.in(), want: []core.ObjectID{u.New}, exclude: have}
	err = g.h.packTo(ctx, p, func(fresh io.Reader) error {
		refused, err := g.h.receive(ctx, take, g.repo.ObjectFormat, []policy.RefUpdate{u}, fresh)
		if err == nil && refused["unpack"] != "" {
			err = fmt.Errorf("the user's repository did not take the objects: %s", core.Untrusted(refused["unpack"]).Quote())
		}
		reason = refused[u.Ref]
		return err
	})
	return reason, err
}

// extend moves a ref that exists, with few processes: the objects beyond it,
// then the ref, if it still is where it was.
func (g *gate) extend(ctx context.Context, user *Repository, u policy.RefUpdate) error {
	p := packing{from: g.in(), want: []core.ObjectID{u.New}, exclude: []core.ObjectID{u.Old}}
	err := g.h.packTo(ctx, p, func(fresh io.Reader) error {
		in := bufio.NewReaderSize(fresh, fewBytes)
		_, more := in.Peek(fewBytes)
		count, pack, err := objectCount(in)
		if err != nil {
			return err
		}
		if count > fewObjects {
			return errManyObjects
		}
		take := g.h.theirs(user, "unpack-objects", "-q")
		if count > unpackLimit || more == nil { // many, or large: git would hold each whole in memory
			take.args = []string{"index-pack", "--stdin"}
		}
		take.config = slices.Concat(noExecution, thrift, []string{"core.bigFileThreshold=" + bigFile})
		take.stdin, take.limits, take.deadline = pack, g.h.largeBounds(), transfer
		_, err = g.h.run.run(ctx, take)
		return err
	})
	if err != nil {
		return err
	}
	return g.moveTheirs(ctx, user, u)
}

// moveTheirs moves a ref of the user's repository to a commit that is there, if
// the ref still is where it was.
func (g *gate) moveTheirs(ctx context.Context, user *Repository, u policy.RefUpdate) error {
	move := g.h.theirs(user)
	move.config = slices.Concat(noExecution, []string{"core.logAllRefUpdates=true"})
	move.env = append(move.env, g.signature()...)
	return g.h.moveRefs(ctx, move, g.repo.ObjectFormat, []change{{u.Ref, u.New, u.Old}})
}

// signature puts the box's name into the user's reflog.
func (g *gate) signature() []string {
	return []string{"GIT_COMMITTER_NAME=agentbox " + string(g.box.Name), "GIT_COMMITTER_EMAIL=box@agentbox.invalid"}
}

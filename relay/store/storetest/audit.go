package storetest

import (
	"encoding/json"
	"reflect"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// wantActions compares the whole audit log, and that its chain holds.
func (b *bench) wantActions(want ...string) {
	b.Helper()
	all, err := b.store.Audit(b.ctx, 0, 1000)
	b.noErr(err)
	var got []string
	for _, e := range all {
		got = append(got, e.Action)
	}
	if !reflect.DeepEqual(got, want) {
		b.Errorf("audit holds %q; want %q", got, want)
	}
	b.noErr2(store.VerifyAudit(b.ctx, b.store, store.Head{}))
}

var auditTests = map[string]func(*bench){
	"entries are chained and numbered from 1": func(b *bench) {
		var last wire.AuditEntry
		for i := range int64(3) {
			e, err := b.store.AppendAudit(b.ctx, entry("act"))
			b.noErr(err)
			if e.Seq != i+1 || e.Prev != last.Hash || e.Hash == "" || !e.At.Equal(b.clock.Now()) {
				b.Errorf("got %+v after %+v", e, last)
			}
			last = e
		}
		head, err := b.store.AuditHead(b.ctx)
		b.noErr(err)
		if (head != store.Head{Seq: 3, Hash: last.Hash}) {
			b.Errorf("head is %+v", head)
		}
		got, err := store.VerifyAudit(b.ctx, b.store, head)
		b.noErr(err)
		if got != head {
			b.Errorf("verified up to %+v; want %+v", got, head)
		}
	},
	"an empty log holds": func(b *bench) {
		head, err := store.VerifyAudit(b.ctx, b.store, store.Head{})
		b.noErr(err)
		if (head != store.Head{}) {
			b.Errorf("head is %+v", head)
		}
	},
	"a log without a known entry was cut": func(b *bench) {
		b.noErr2(b.store.AppendAudit(b.ctx, entry("act")))
		_, err := store.VerifyAudit(b.ctx, b.store, store.Head{Seq: 2, Hash: "00"})
		b.wantErr(err, store.ErrTampered)
		_, err = store.VerifyAudit(b.ctx, b.store, store.Head{Seq: 1, Hash: "00"})
		b.wantErr(err, store.ErrTampered)
	},
	"what is read is what was appended": func(b *bench) {
		want, err := b.store.AppendAudit(b.ctx, entry("act"))
		b.noErr(err)
		bare, err := b.store.AppendAudit(b.ctx, store.Entry{Actor: "relay", Action: "start"})
		b.noErr(err)
		got, err := b.store.Audit(b.ctx, 0, 10)
		b.noErr(err)
		if !reflect.DeepEqual(got, []wire.AuditEntry{want, bare}) {
			b.Errorf("got %+v; want %+v and %+v", got, want, bare)
		}
		page, err := b.store.Audit(b.ctx, 0, 1)
		b.noErr(err)
		rest, err := b.store.Audit(b.ctx, 1, 10)
		b.noErr(err)
		if len(page) != 1 || page[0].Seq != 1 || len(rest) != 1 || rest[0].Seq != 2 {
			b.Errorf("got pages %v and %v", page, rest)
		}
	},
	"an exported entry still verifies": func(b *bench) {
		e, err := b.store.AppendAudit(b.ctx, entry("act"))
		b.noErr(err)
		raw, err := json.Marshal(e)
		b.noErr(err)
		var again wire.AuditEntry
		b.noErr(json.Unmarshal(raw, &again))
		b.noErr2(store.VerifyAudit(b.ctx, exported{b.store, []wire.AuditEntry{again}}, store.Head{}))
	},
	"what is no JSON or too large is refused": func(b *bench) {
		if _, err := b.store.AppendAudit(b.ctx, store.Entry{Detail: json.RawMessage(`{`)}); err == nil {
			b.Error("a detail that is no JSON was taken")
		}
		_, err := b.store.AppendAudit(b.ctx, store.Entry{Detail: bigJSON(store.MaxDetailBytes + 1)})
		b.wantErr(err, store.ErrTooLarge)
		b.wantActions()
	},
	"appending at once keeps one chain": func(b *bench) {
		inParallel(8, func(int) {
			for range 25 {
				if _, err := b.store.AppendAudit(b.ctx, entry("act")); err != nil {
					b.Error(err)
				}
			}
		})
		head, err := store.VerifyAudit(b.ctx, b.store, store.Head{})
		b.noErr(err)
		if head.Seq != 200 {
			b.Errorf("%d entries; want 200", head.Seq)
		}
	},
	"the bytes of a box are counted and outlive it": func(b *bench) {
		b.register("box")
		e, err := b.store.AppendAudit(b.ctx, entry("act"))
		b.noErr(err)
		b.noErr2(b.store.AppendAudit(b.ctx, entry("act")))
		b.noErr2(b.store.ForgetBox(b.ctx, "box"))
		for boxID, want := range map[string]int64{"box": 2 * store.EntryBytes(e), "other": 0} {
			n, err := b.store.AuditBytes(b.ctx, boxID)
			b.noErr(err)
			if n != want {
				b.Errorf("box %s has %d audit bytes; want %d", boxID, n, want)
			}
		}
	},
}

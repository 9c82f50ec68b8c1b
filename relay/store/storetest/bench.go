package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// Bench measures what a relay does most and what a person waits for.
func Bench(b *testing.B, open Open) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("append/writers=%d", writers), func(b *testing.B) { benchAppend(b, open, writers) })
		b.Run(fmt.Sprintf("audit/writers=%d", writers), func(b *testing.B) { benchAudit(b, open, writers) })
	}
	b.Run("approve-to-wake", func(b *testing.B) { benchWake(b, open) })
}

func benchStore(b *testing.B, open Open) store.Store {
	s := open(b, time.Now)
	b.Cleanup(func() { closeStore(b, s) })
	if _, err := s.RegisterBox(b.Context(), box("b1"), store.HashToken("t")); err != nil {
		b.Fatal(err)
	}
	return s
}

func benchAppend(b *testing.B, open Open, writers int) {
	s := benchStore(b, open)
	share := (b.N + writers - 1) / writers
	b.ResetTimer()
	inParallel(writers, func(int) {
		for i := range share {
			if _, err := s.AppendEvent(b.Context(), "b1", wire.PostEvent{Type: "t", Payload: payload(i)}); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(writers*share)/b.Elapsed().Seconds(), "events/s")
}

func benchAudit(b *testing.B, open Open, writers int) {
	s := benchStore(b, open)
	share := (b.N + writers - 1) / writers
	b.ResetTimer()
	inParallel(writers, func(int) {
		for range share {
			if _, err := s.AppendAudit(b.Context(), entry("act")); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(writers*share)/b.Elapsed().Seconds(), "entries/s")
}

// benchWake measures from the call that answers to the waiter's return.
func benchWake(b *testing.B, open Open) {
	s := benchStore(b, open)
	took := make([]time.Duration, 0, b.N)
	for i := range b.N {
		a, _, err := s.OpenApproval(b.Context(), askFor("b1", fmt.Sprint(i), time.Hour))
		if err != nil {
			b.Fatal(err)
		}
		woken := make(chan time.Time)
		go func() {
			if _, err := store.WaitApproval(b.Context(), s, a.ID, wire.Pending); err != nil {
				b.Error(err)
			}
			woken <- time.Now()
		}()
		start := time.Now()
		if _, err := s.AnswerApproval(b.Context(), a.ID, store.Reply{Yes: true}); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-woken).Sub(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

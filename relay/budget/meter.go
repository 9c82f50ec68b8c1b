package budget

import (
	"context"
	"sync/atomic"
	"time"
)

// Meter counts the processor time of the processes that run for one request.
type Meter struct{ spent atomic.Int64 }

type meterKey struct{}

// Measure makes a context whose processes are charged to the meter.
func Measure(ctx context.Context) (context.Context, *Meter) {
	m := &Meter{}
	return context.WithValue(ctx, meterKey{}, m), m
}

// Charge books processor time on the meter of the context, if it has one.
func Charge(ctx context.Context, cpu time.Duration) {
	if m, ok := ctx.Value(meterKey{}).(*Meter); ok {
		m.spent.Add(int64(cpu))
	}
}

// CPU is what was charged so far.
func (m *Meter) CPU() time.Duration { return time.Duration(m.spent.Load()) }

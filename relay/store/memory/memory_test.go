package memory_test

import (
	"testing"
	"time"

	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/memory"
	"github.com/madarco/agentbox/relay/store/storetest"
)

func open(_ testing.TB, now func() time.Time) store.Store {
	return memory.New(memory.Options{Now: now})
}

func TestStore(t *testing.T) { storetest.Run(t, open) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, open) }

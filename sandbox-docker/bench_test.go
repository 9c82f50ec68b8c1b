package sandboxdocker_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/madarco/agentbox/core"
)

// BenchmarkCreate sets a create on a warm image against its floor, a plain
// network and container of the same image, each in turn: x/floor is the ratio
// of the medians, ms-over their difference.
func BenchmarkCreate(b *testing.B) {
	at := endpoint(b)
	o := options(b, at)
	p := newProvider(b, at)
	image, err := p.EnsureImage(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var floors, creates []time.Duration
	floor := func() {
		name := "agentbox-bench-" + core.NewBoxID()
		start := time.Now()
		network, err := o.Engine.CreateNetwork(b.Context(), name, netip.MustParsePrefix("10.214.0.0/28"), nil)
		if err != nil {
			b.Fatal(err)
		}
		id, err := o.Engine.CreateContainer(b.Context(), client.ContainerCreateOptions{
			Name:       name,
			Config:     &container.Config{Image: image.ID, Entrypoint: []string{"sleep", "1000"}},
			HostConfig: &container.HostConfig{NetworkMode: container.NetworkMode(name)},
		})
		if err == nil {
			err = o.Engine.StartContainer(b.Context(), id)
		}
		floors = append(floors, time.Since(start))
		for _, err := range []error{err, o.Engine.RemoveContainer(b.Context(), id), o.Engine.RemoveNetwork(b.Context(), network)} {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		floor()
		req := draft(b)
		start := time.Now()
		box, err := p.Create(b.Context(), req)
		creates = append(creates, time.Since(start))
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Destroy(b.Context(), box); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(floors)
	slices.Sort(creates)
	f, c := floors[len(floors)/2], creates[len(creates)/2]
	b.ReportMetric(float64(c)/float64(f), "x/floor")
	b.ReportMetric(float64((c - f).Milliseconds()), "ms-over")
	b.ReportMetric(float64(f.Milliseconds()), "ms-floor")
}

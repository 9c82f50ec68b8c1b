package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// series are the times of one thing that was done again and again.
type series []time.Duration

// at is the quantile q, by nearest rank.
func (s series) at(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// action does one thing once and tells how long the part took that counts.
type action func(ctx context.Context) (time.Duration, error)

// interleave runs the actions in turns, each as often as there are rounds, and
// lets another one begin each round, so that a busy moment hits all alike.
func interleave(ctx context.Context, rounds int, actions ...action) ([]series, error) {
	times := make([]series, len(actions))
	for round := range rounds {
		for i := range actions {
			i = (i + round) % len(actions)
			took, err := actions[i](ctx)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took)
		}
	}
	return times, nil
}

// timed measures all of what do does.
func timed(do func(ctx context.Context) error) action {
	return func(ctx context.Context) (time.Duration, error) {
		begin := time.Now()
		err := do(ctx)
		return time.Since(begin), err
	}
}

// row is one line of the result.
type row struct {
	what      string
	ours      series
	floorName string
	floor     series
	// figure is what is held against the budget.
	figure, budget string
}

// ratio judges by how many times the floor it takes.
func ratio(what string, ours series, floorName string, floor series, budget string) row {
	times := float64(ours.at(.5)) / float64(floor.at(.5))
	return row{what, ours, floorName, floor, fmt.Sprintf("%.2f ×", times), budget}
}

// over judges by the time on top of the floor.
func over(what string, ours series, floorName string, floor series, budget string) row {
	figure := ms(ours.at(.5) - floor.at(.5))
	if !strings.HasPrefix(figure, "-") {
		figure = "+" + figure
	}
	return row{what, ours, floorName, floor, figure, budget}
}

// beyond judges by how many times the floor it takes, and shows how far that is
// from so many times the floor and a fixed part.
func beyond(what string, ours series, floorName string, floor series, times float64, fixed time.Duration) row {
	r := ratio(what, ours, floorName, floor, fmt.Sprintf("≤ %.1f × + %s", times, ms(fixed)))
	left := ours.at(.5) - time.Duration(times*float64(floor.at(.5)))
	r.figure += fmt.Sprintf(" = %.1f × + %s", times, ms(left))
	return r
}

// alone has no floor.
func alone(what string, ours series, budget string) row {
	return row{what, ours, "", nil, ms(ours.at(.5)), budget}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

func printTable(w io.Writer, rows []row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tn\tp50\tp99\tfloor\tits p50\tfigure\tbudget")
	for _, r := range rows {
		floor := "–"
		if r.floor != nil {
			floor = ms(r.floor.at(.5))
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n",
			r.what, len(r.ours), ms(r.ours.at(.5)), ms(r.ours.at(.99)), r.floorName, floor, r.figure, r.budget)
	}
	return table.Flush()
}

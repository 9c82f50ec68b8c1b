package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	s := series{5, 1, 4, 2, 3}
	for q, want := range map[float64]time.Duration{0: 1, .5: 3, .99: 5, 1: 5} {
		if got := s.at(q); got != want {
			t.Errorf("at(%v) = %v, want %v", q, got, want)
		}
	}
	if got := series(nil).at(.5); got != 0 {
		t.Errorf("an empty series has the median %v", got)
	}
}

func TestActionsTakeTurns(t *testing.T) {
	var order strings.Builder
	do := func(name string, took time.Duration) action {
		return func(context.Context) (time.Duration, error) {
			order.WriteString(name)
			return took, nil
		}
	}
	times, err := interleave(t.Context(), 3, do("a", 1), do("b", 2))
	if err != nil || order.String() != "abbaab" {
		t.Errorf("order %q, %v", &order, err)
	}
	if !slices.Equal(times[0], series{1, 1, 1}) || !slices.Equal(times[1], series{2, 2, 2}) {
		t.Errorf("times are %v", times)
	}
}

func TestTheFirstFailureEnds(t *testing.T) {
	broken := errors.New("broken")
	_, err := interleave(t.Context(), 3, func(context.Context) (time.Duration, error) { return 0, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestFiguresCompareMedians(t *testing.T) {
	ours, floor := series{30 * time.Millisecond}, series{10 * time.Millisecond}
	if got := ratio("", ours, "", floor, "").figure; got != "3.00 ×" {
		t.Errorf("ratio is %q", got)
	}
	if got := over("", ours, "", floor, "").figure; got != "+20.0 ms" {
		t.Errorf("over is %q", got)
	}
	if got := over("", floor, "", ours, "").figure; got != "-20.0 ms" {
		t.Errorf("over is %q where ours is faster", got)
	}
	if r := beyond("", ours, "", floor, 1.5, 40*time.Millisecond); r.figure != "3.00 × = 1.5 × + 15.0 ms" || r.budget != "≤ 1.5 × + 40.0 ms" {
		t.Errorf("beyond is %q of %q", r.figure, r.budget)
	}
	var out strings.Builder
	if err := printTable(&out, []row{ratio("start", ours, "/bin/true", floor, "≤ 7 ×")}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"start", "30.0 ms", "/bin/true", "10.0 ms", "3.00 ×", "≤ 7 ×"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &out)
		}
	}
}

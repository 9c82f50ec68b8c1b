package streams

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/madarco/agentbox/cli/internal/output"
)

// Steps shows the parts of long work as they end, each with its time. On a
// terminal a last line names what runs. It is safe for concurrent use.
type Steps struct {
	s   *Streams
	now func() time.Time

	mu      sync.Mutex
	running []string
}

// NewSteps shows steps on s, timed by now.
func NewSteps(s *Streams, now func() time.Time) *Steps { return &Steps{s: s, now: now} }

// Step begins a step; the function that it returns ends it, and tells by its
// error whether it failed. Ending it twice counts once.
func (p *Steps) Step(name string) (done func(error)) {
	began := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = append(p.running, name)
	p.draw("")
	var once sync.Once
	return func(err error) {
		once.Do(func() { p.end(name, p.now().Sub(began), err) })
	}
}

// Line shows a line of what a step prints, without what acts on a terminal.
func (p *Steps) Line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw("  " + p.s.Painted(Weak, output.Line(text)) + "\n")
}

func (p *Steps) end(name string, took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.running, name); i >= 0 {
		p.running = slices.Delete(p.running, i, i+1)
	}
	mark := p.s.Painted(Good, "✓")
	if err != nil {
		mark = p.s.Painted(Bad, "✗")
	}
	p.draw(fmt.Sprintf("%s %s %s\n", mark, name, p.s.Painted(Weak, fmt.Sprintf("%.2fs", took.Seconds()))))
}

// draw writes line above the line of running steps.
func (p *Steps) draw(line string) {
	if p.s.Quiet {
		return
	}
	if !p.s.ErrTTY {
		fmt.Fprint(p.s.ErrOut, line)
		return
	}
	const startOfLine, eraseToEnd = "\r", "\x1b[K" // ECMA-48 CR, EL
	status := ""
	if len(p.running) > 0 {
		status = p.s.Painted(Weak, "· "+strings.Join(p.running, ", "))
	}
	fmt.Fprint(p.s.ErrOut, startOfLine+eraseToEnd+line+status)
}

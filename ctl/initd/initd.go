package initd

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// stopTime is what the daemon gets to step down, sweepTime what the rest
	// gets after it; together they stay below the engine's 25 seconds.
	stopTime  = 20 * time.Second
	sweepTime = 2 * time.Second
	// A daemon that keeps dying is started again after a wait that doubles.
	firstWait, lastWait = 500 * time.Millisecond, 30 * time.Second
	// longRun is the life after which a death counts as the first again.
	longRun = time.Minute
)

// Options configure Run.
type Options struct {
	// Daemon is the daemon's argv; its first word is a path.
	Daemon []string
	// Word is the FIFO of the host's word.
	Word string
	// Log gets a line for each thing that a person would ask about.
	Log *log.Logger
}

// nextWait is the wait before the next start of a daemon that lived so long.
func nextWait(last, lived time.Duration) time.Duration {
	if last == 0 || lived >= longRun {
		return firstWait
	}
	return min(2*last, lastWait)
}

// Run is process 1 until the box stops. It refuses to be any other process: at
// its end it signals all processes of the box.
func Run(o Options) error {
	if os.Getpid() != 1 {
		return errors.New("agentbox-ctl init runs as process 1 of a box only")
	}
	p := &process1{Options: o, restart: time.NewTimer(0), deadline: time.NewTimer(0)}
	<-p.restart.C
	<-p.deadline.C
	children, signals := make(chan os.Signal, 1), make(chan os.Signal, 16)
	signal.Notify(children, syscall.SIGCHLD)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	words, err := listen(o.Word)
	if err != nil {
		return err
	}
	o.Log.Print("waiting for the host to finish the box's setup")
	for !p.finished {
		select {
		case <-children:
			p.reap()
		case s := <-signals:
			p.signal(s.(syscall.Signal))
		case <-words:
			p.word()
		case <-p.restart.C:
			p.start()
		case <-p.deadline.C:
			p.late()
		}
	}
	return nil
}

// process1 is the state that the loop of Run owns.
type process1 struct {
	Options
	daemon   int // process id, 0 while none runs
	begun    time.Time
	wait     time.Duration // before the next start
	restart  *time.Timer
	deadline *time.Timer // of the phase of stopping

	allowed  bool // the host gave the word
	stopping bool
	sweeping bool
	finished bool
}

// word starts the daemon; one that runs is told to look at its files again.
func (p *process1) word() {
	switch {
	case p.stopping:
	case p.daemon != 0:
		p.tell(syscall.SIGHUP)
	default:
		p.allowed = true
		p.start()
	}
}

func (p *process1) start() {
	if p.daemon != 0 || !p.allowed || p.stopping {
		return
	}
	p.restart.Stop()
	// Not os/exec: its Wait and reap would compete for the exit status.
	pid, err := syscall.ForkExec(p.Daemon[0], p.Daemon, &syscall.ProcAttr{
		Dir:   "/", // nothing is held busy in the work tree
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	p.begun = time.Now()
	if err != nil {
		p.again(fmt.Sprintf("cannot be started: %v", err))
		return
	}
	p.daemon = pid
}

// again plans the next start.
func (p *process1) again(reason string) {
	p.wait = nextWait(p.wait, time.Since(p.begun))
	p.Log.Printf("the daemon %s; it is started again in %v", reason, p.wait)
	p.restart.Reset(p.wait)
}

// reap takes the exit status of every child that has ended: the daemon, and
// the orphans that the kernel hands to process 1.
func (p *process1) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD: none is left
			p.finished = p.finished || p.sweeping
			return
		case pid == 0:
			return
		case pid == p.daemon:
			p.daemon = 0
			p.ended(status)
		}
	}
}

func (p *process1) ended(status syscall.WaitStatus) {
	if p.stopping {
		p.sweep()
		return
	}
	reason := fmt.Sprintf("ended with code %d", status.ExitStatus())
	if status.Signaled() {
		reason = fmt.Sprintf("died of signal %d (%v)", status.Signal(), status.Signal())
	}
	p.again(reason)
}

// signal passes a signal on. Those that end a program end the box.
func (p *process1) signal(s syscall.Signal) {
	switch {
	case s == syscall.SIGHUP:
		p.tell(s)
	case p.sweeping:
		p.finished = true
	case p.stopping: // asked twice: no more patience
		p.tell(syscall.SIGKILL)
	default:
		p.stopping = true
		p.deadline.Reset(stopTime)
		if p.daemon == 0 {
			p.sweep()
			return
		}
		p.tell(s)
	}
}

func (p *process1) tell(s syscall.Signal) {
	if p.daemon != 0 {
		_ = syscall.Kill(p.daemon, s) // not reaped yet, so it exists
	}
}

// sweep asks what else runs in the box to end, and waits for it shortly; the
// kernel kills the rest with process 1.
func (p *process1) sweep() {
	p.sweeping = true
	p.deadline.Reset(sweepTime)
	_ = syscall.Kill(-1, syscall.SIGTERM) // ESRCH: nothing runs
	p.reap()
}

// late is called when the time of a phase of stopping is up.
func (p *process1) late() {
	if p.sweeping {
		p.finished = true
		return
	}
	p.Log.Printf("the daemon did not step down within %v and is killed", stopTime)
	p.tell(syscall.SIGKILL)
}

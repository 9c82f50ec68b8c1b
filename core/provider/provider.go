// Package provider is the seam between AgentBox and what makes boxes: Docker
// here, machines and clouds elsewhere.
//
// Provider is what every one of them does. What only some can do is a small
// interface of its own, announced in Capabilities, so that a caller can refuse
// early and say why.
//
// Invariants:
//   - A Create that fails leaves nothing behind.
//   - Destroy of a box that is gone succeeds.
//   - A control that the request demands and the provider lacks fails the
//     create with an error that wraps ErrUnsupported.
package provider

import (
	"context"
	"errors"
	"io"

	"github.com/madarco/agentbox/core"
)

// Errors that callers branch on; providers wrap them.
var (
	// ErrUnavailable: what makes the boxes (engine, API) cannot be reached.
	ErrUnavailable = errors.New("not reachable")
	// ErrNotFound: the provider has no such box.
	ErrNotFound = errors.New("no such box")
	// ErrNotRunning: the box exists but runs nothing now.
	ErrNotRunning = errors.New("box is not running")
	// ErrNameTaken: something else at the provider has the box's name.
	ErrNameTaken = errors.New("name is taken")
	// ErrNoImage: the box image is missing and could not be made.
	ErrNoImage = errors.New("box image is missing")
	// ErrUnknownImage: the image that was named is not the provider's own and not
	// there.
	ErrUnknownImage = errors.New("no such image")
	// ErrWrongImage: the image that was named holds no agentbox-ctl of this version.
	ErrWrongImage = errors.New("not a box image of this version")
	// ErrNoSpace: a disk that the provider works on is full.
	ErrNoSpace = errors.New("no space left on the provider's disk")
	// ErrUnsupported: the provider lacks a control that was asked for.
	ErrUnsupported = errors.New("not supported by this provider")
)

// Provider makes and drives boxes. Methods are safe for concurrent use, and
// honour their context.
type Provider interface {
	// Name is the word in core.Box.Provider, such as "docker".
	Name() string
	// Capabilities says what this provider can do and enforce, here and now.
	Capabilities(ctx context.Context) (Capabilities, error)
	// Create makes a running box and returns its record with the provider's
	// own part filled in.
	Create(ctx context.Context, req CreateRequest) (core.Box, error)
	// Start brings a stopped or paused box back and hands it a new Setup.
	Start(ctx context.Context, box core.Box, setup Setup) error
	// Stop ends a box's processes and keeps its files.
	Stop(ctx context.Context, box core.Box) error
	// Destroy removes the box and everything the provider made for it.
	Destroy(ctx context.Context, box core.Box) error
	// State is cheap and never wakes a box.
	State(ctx context.Context, box core.Box) (core.State, error)
	// Exec runs argv in the box and returns its exit code. A code other than
	// zero is a result, not an error.
	Exec(ctx context.Context, box core.Box, req ExecRequest) (int, error)
}

// Pauser is implemented by providers that can freeze a box.
type Pauser interface {
	Pause(ctx context.Context, box core.Box) error
	Unpause(ctx context.Context, box core.Box) error
}

// Capabilities tell what a provider does and which bounds it enforces.
type Capabilities struct {
	Pause      bool `json:"pause"`
	Checkpoint bool `json:"checkpoint"`
	// SharedObjects: the seed's objects are mounted, nothing is sent.
	SharedObjects bool `json:"sharedObjects"`
	Memory        bool `json:"memory"`
	PIDs          bool `json:"pids"`
	CPUs          bool `json:"cpus"`
	Disk          bool `json:"disk"`
	Seccomp       bool `json:"seccomp"`
}

// CreateRequest says what box to make.
type CreateRequest struct {
	// Box is the draft record: id, name, project, repositories, limits.
	Box core.Box
	// Image is a flavour of the box image or a reference of the user's own
	// image; empty means the one that the provider is set to.
	Image string
	// RelayDir is the host folder that holds the box's relay socket.
	RelayDir string
	// Seeds are the object folders that the box reads, by repository key.
	Seeds map[string]string
	// Setup fills the box once it runs.
	Setup Setup
	// Step reports progress: the returned function ends the step.
	Step func(name string) (done func(error))
}

// Setup writes the stream that the in-box `agentbox-ctl setup` reads on its
// standard input (see package core/setup). It is called once the box runs and
// may wait in it for work that goes on beside the box's start.
type Setup func(ctx context.Context, w io.Writer) error

// ExecRequest is one command in a box. Exec starts in WorkDir, "/" if empty.
type ExecRequest struct {
	Argv    []string
	User    string // default: the box user
	WorkDir string
	Env     []string // "NAME=value"
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	// TTY asks for a terminal of this size; Stderr is then unused and Resize,
	// if set, delivers later sizes.
	TTY    *TTYSize
	Resize <-chan TTYSize
}

// TTYSize is a terminal's size in cells.
type TTYSize struct{ Cols, Rows uint16 }

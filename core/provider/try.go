package provider

import "context"

// Try is one thing that a create needs, tried and not only looked at.
type Try struct {
	Name string
	// Run says what was found, or what is wrong and what to do.
	Run func(ctx context.Context) (found string, err error)
	// Needs names a try before it of what has to answer for this one: where
	// that failed, this one is not tried.
	Needs string
	// Soft: without it a create works, only worse.
	Soft bool
}

// Examiner is implemented by providers that can try what a create needs of
// them. Trying leaves nothing behind.
type Examiner interface {
	Tries() []Try
}

package provider

// UnavailableError is ErrUnavailable with what cannot be reached, why, and what
// to do about it.
type UnavailableError struct {
	// What is meant, with its address.
	What string
	// Reason is why, nil where that says no more.
	Reason error
	// Next is what the user can do; the message leaves it out.
	Next string
}

func (e *UnavailableError) Error() string {
	text := e.What + ": " + ErrUnavailable.Error()
	if e.Reason != nil {
		text += ": " + e.Reason.Error()
	}
	return text
}

// Is makes it an ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

func (e *UnavailableError) Unwrap() error { return e.Reason }

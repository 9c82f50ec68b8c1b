package core

import (
	"regexp"
	"sync"
)

// pattern compiles an expression when it is first used. Compiling all of this
// package's at start would cost a program in a box more than its whole run.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

package streams

import (
	"context"
	"fmt"
	"strings"
)

// Ask writes a question for the person and returns the line of the answer, ""
// where the input ends. It reads no byte behind that line, which may be meant
// for a terminal in a box.
func (s *Streams) Ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(s.ErrOut, question)
	answer := make(chan string, 1)
	go func() { // ends with the process if the user never answers
		var line strings.Builder
		for one := make([]byte, 1); ; {
			n, err := s.In.Read(one)
			if n == 1 && one[0] != '\n' {
				line.WriteByte(one[0])
			}
			if err != nil || n == 1 && one[0] == '\n' {
				answer <- strings.TrimSpace(line.String())
				return
			}
		}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(s.ErrOut)
		return "", context.Cause(ctx)
	case line := <-answer:
		return line, nil
	}
}

package modelserver

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"unicode/utf8"
)

// stream writes server-sent events. Errors of writing are the client's going
// away, after which the rest goes nowhere.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func startStream(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return stream{w: w, control: http.NewResponseController(w)}
}

// send writes an event; without a name it has data only.
func (s stream) send(name string, data object) {
	text := encode(data)
	if name != "" {
		s.raw("event: " + name + "\ndata: " + string(text) + "\n\n")
		return
	}
	s.raw("data: " + string(text) + "\n\n")
}

func (s stream) raw(text string) {
	if _, err := s.w.Write([]byte(text)); err == nil {
		_ = s.control.Flush()
	}
}

func writeJSON(w http.ResponseWriter, status int, data object) {
	text := encode(data)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// encode is for this package's own maps, which always have a form in JSON.
func encode(data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("modelserver: encode an answer: %v", err))
	}
	return text
}

// pieceSize makes even short texts come in several pieces.
const pieceSize = 24

// pieces cuts text as a stream brings it, between runes.
func pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := min(pieceSize, len(text))
			for n < len(text) && !utf8.RuneStart(text[n]) {
				n++
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// ErrBadJSON is wrapped by every refusal of Decode.
var ErrBadJSON = errors.New("bad request body")

// maxDepth bounds nesting: deeper input has no meaning in any of our bodies.
const maxDepth = 32

// Decode reads one JSON object into dst, a pointer to a struct. An empty body
// is the empty object. Unknown keys, keys that differ from a field only in
// case, repeated keys, invalid UTF-8, deep nesting and trailing data are
// refused, so that two readers can't understand one body in two ways.
func Decode(body []byte, dst any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if !utf8.Valid(body) {
		return fmt.Errorf("%w: not UTF-8", ErrBadJSON)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := checkValue(d, exactKeys(dst), 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: data after the object", ErrBadJSON)
	}
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(dst); err != nil {
		return fmt.Errorf("%w: %s", ErrBadJSON, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// exactKeys lists the JSON names of the outermost struct; encoding/json would
// match them in any case.
func exactKeys(dst any) map[string]bool {
	t := reflect.TypeOf(dst)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	keys := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		keys[name] = true
	}
	return keys
}

func checkValue(d *json.Decoder, allowed map[string]bool, depth int) error {
	tok, err := d.Token()
	if err != nil {
		return fmt.Errorf("%w: not JSON", ErrBadJSON)
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("%w: nested too deeply", ErrBadJSON)
	}
	seen := map[string]bool{}
	for d.More() {
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return fmt.Errorf("%w: not JSON", ErrBadJSON)
			}
			name := key.(string)
			if folded := strings.ToLower(name); seen[folded] {
				return fmt.Errorf("%w: a key stands twice", ErrBadJSON)
			} else {
				seen[folded] = true
			}
			if allowed != nil && !allowed[name] {
				return fmt.Errorf("%w: unknown key", ErrBadJSON)
			}
		}
		if err := checkValue(d, nil, depth+1); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("%w: not JSON", ErrBadJSON)
	}
	return nil
}

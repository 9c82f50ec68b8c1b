// Package output prints what a command shows: tables for people, JSON of
// declared fields for programs.
//
// Invariant: JSON holds the declared fields of a view and nothing else, so
// that what a record carries beyond them (a secret of another version, say)
// never gets out.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON is the value of a --json flag: not given, given, or given with a list
// of fields as in --json=name,state. It implements the flag's value.
type JSON struct {
	On     bool
	Fields []string
}

// Set reads the flag's value; "true" stands for the flag without one.
func (j *JSON) Set(v string) error {
	switch v {
	case "false":
		*j = JSON{}
	case "true":
		*j = JSON{On: true}
	default:
		*j = JSON{On: true, Fields: strings.Split(v, ",")}
	}
	return nil
}

// String is the flag's value as it was given.
func (j *JSON) String() string { return strings.Join(j.Fields, ",") }

// Get is the value itself.
func (j *JSON) Get() any { return *j }

// IsBoolFlag lets the flag stand without a value.
func (j *JSON) IsBoolFlag() bool { return true }

// UnknownFieldError is a field that a view does not declare.
type UnknownFieldError struct {
	Field string
	Known []string
}

func (e *UnknownFieldError) Error() string {
	return fmt.Sprintf("unknown field %q for --json", e.Field)
}

// Fields lists the declared fields of a view, a struct with json tags.
func Fields[V any]() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[V]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// Check refuses fields that the view V lacks, with *UnknownFieldError. Call it
// before the work is done.
func Check[V any](j JSON) error {
	known := Fields[V]()
	for _, f := range j.Fields {
		if !slices.Contains(known, f) {
			return &UnknownFieldError{f, known}
		}
	}
	return nil
}

// List writes views as a JSON array, One a single view as an object; both keep
// the fields that j names, all if it names none, and are indented when pretty.
func List[V any](w io.Writer, j JSON, pretty bool, views []V) error {
	picked := make([]any, len(views))
	for i, v := range views {
		one, err := pick(v, j.Fields)
		if err != nil {
			return err
		}
		picked[i] = one
	}
	return write(w, pretty, picked)
}

// One writes a single view; see List.
func One[V any](w io.Writer, j JSON, pretty bool, view V) error {
	one, err := pick(view, j.Fields)
	if err != nil {
		return err
	}
	return write(w, pretty, one)
}

func pick(view any, fields []string) (any, error) {
	if len(fields) == 0 {
		return view, nil
	}
	data, err := json.Marshal(view)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var all map[string]any
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	some := map[string]any{}
	for _, f := range fields {
		some[f] = all[f]
	}
	return some, nil
}

func write(w io.Writer, pretty bool, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if pretty {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if _, err := w.Write(Escaped(b.Bytes())); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// Escaped is the same JSON with escapes for what could act on a terminal, of
// which the encoder leaves the most as it is: C1 controls, DEL, and characters
// that turn or hide text. People look at JSON too.
func Escaped(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		if r == '\n' || !acts(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// Package jsonobject changes single values of a JSON object that belongs to
// somebody else, such as a program's configuration.
//
// Invariant: what is not named stays as it was, numbers to the digit, also
// where something else than an object stands in the way of a path.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// Object is a JSON object; the zero value is not usable, Parse makes one.
type Object map[string]any

// errNoObject: the text is JSON, and no object.
var errNoObject = errors.New("not a JSON object")

// Parse reads one object; a text of nothing but white space is the empty one.
func Parse(text []byte) (Object, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return Object{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var o Object
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoObject, err)
	}
	if _, err := d.Token(); o == nil || !errors.Is(err, io.EOF) {
		return nil, errNoObject
	}
	return o, nil
}

// Text is the object, indented.
func (o Object) Text() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(map[string]any(o))
	return b.Bytes(), err
}

// Set sets the value at a path of objects and tells whether that changed
// anything. Values are what json.Unmarshal makes.
func (o Object) Set(value any, path ...string) bool {
	at, key := o.parent(path)
	if at == nil || reflect.DeepEqual(at[key], value) {
		return false
	}
	at[key] = value
	return true
}

// Preset is Set where there is no value yet.
func (o Object) Preset(value any, path ...string) bool {
	at, key := o.parent(path)
	if at == nil {
		return false
	}
	if _, there := at[key]; there {
		return false
	}
	at[key] = value
	return true
}

// Get is the value at a path, nil if there is none.
func (o Object) Get(path ...string) any {
	var at any = map[string]any(o)
	for _, key := range path {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[key]
	}
	return at
}

// parent is the object that holds the last key of a path, made if need be; nil
// where something else stands in the way.
func (o Object) parent(path []string) (map[string]any, string) {
	at := map[string]any(o)
	last := len(path) - 1
	for _, key := range path[:last] {
		next, ok := at[key].(map[string]any)
		if !ok {
			if at[key] != nil {
				return nil, ""
			}
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	return at, path[last]
}

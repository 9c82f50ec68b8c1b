package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/madarco/agentbox/core"
)

// version is what this code writes and the newest that it reads.
const version = 1

// State is the content of the file. Change it only inside Store.Update.
type State struct {
	Boxes []core.Box

	file    map[string]any    // the document as it was read
	records map[string]record // by box id, as they were read
}

// record is one box as it stood in the file, and how much of that was
// understood.
type record struct{ original, known any }

func decode(data []byte) (*State, error) {
	var top map[string]json.RawMessage // exact keys, which a struct would not ask for
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err := checkVersion(top["version"]); err != nil {
		return nil, err
	}
	var boxes []json.RawMessage
	if err := json.Unmarshal(top["boxes"], &boxes); err != nil {
		return nil, fmt.Errorf("%w: its list of boxes: %w", ErrCorrupt, err)
	}
	file, err := generic(data)
	if err != nil {
		return nil, err
	}
	st := &State{file: file.(map[string]any), records: map[string]record{}} // top was decoded from an object
	for i, raw := range boxes {
		if err := st.add(raw); err != nil {
			return nil, fmt.Errorf("box %d of the list: %w", i+1, err)
		}
	}
	return st, nil
}

func checkVersion(raw json.RawMessage) error {
	var v int
	if err := json.Unmarshal(raw, &v); err != nil || v < 1 {
		return fmt.Errorf("%w: it names no version", ErrCorrupt)
	}
	if v > version {
		return fmt.Errorf("%w: it has version %d, this agentbox knows %d", ErrNewer, v, version)
	}
	return nil
}

func (s *State) add(raw json.RawMessage) error {
	var box core.Box
	if err := json.Unmarshal(raw, &box); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !core.ValidBoxID(box.ID) || box.Name == "" {
		return fmt.Errorf("%w: a record lacks its id or name", ErrCorrupt)
	}
	if _, twice := s.records[box.ID]; twice {
		return fmt.Errorf("%w: id %s stands twice", ErrCorrupt, box.ID)
	}
	original, err := generic(raw)
	if err != nil {
		return err
	}
	known, err := understood(box)
	if err != nil {
		return err
	}
	s.Boxes = append(s.Boxes, box)
	s.records[box.ID] = record{original, known}
	return nil
}

// encode renders the file; changed tells whether it differs from what was read.
func encode(s *State) (data []byte, changed bool, err error) {
	boxes := make([]any, len(s.Boxes))
	for i, box := range s.Boxes {
		known, err := understood(box)
		if err != nil {
			return nil, false, err
		}
		was := s.records[box.ID]
		boxes[i] = merge(was.original, was.known, known)
	}
	file := map[string]any{}
	for key, value := range s.file {
		file[key] = value
	}
	file["version"], file["boxes"] = json.Number(fmt.Sprint(version)), boxes
	if reflect.DeepEqual(file, s.file) || (s.file == nil && len(boxes) == 0) {
		return nil, false, nil
	}
	data, err = json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, false, fmt.Errorf("encode the state: %w", err)
	}
	return append(data, '\n'), true, nil
}

// merge is the document that says after, and keeps of original what before,
// the understood part of original, lacks. A value whose understood part did
// not change stays exactly as it was.
func merge(original, before, after any) any {
	if original != nil && reflect.DeepEqual(before, after) {
		return original
	}
	was, ok1 := original.(map[string]any)
	old, ok2 := before.(map[string]any)
	now, ok3 := after.(map[string]any)
	if !ok1 || !ok2 || !ok3 {
		return after
	}
	out := map[string]any{}
	for key, value := range was {
		if _, understood := old[key]; !understood {
			out[key] = value
		}
	}
	for key, value := range now {
		out[key] = merge(was[key], old[key], value)
	}
	return out
}

// understood is a box as a generic document.
func understood(box core.Box) (any, error) {
	data, err := json.Marshal(box)
	if err != nil {
		return nil, fmt.Errorf("encode box %s: %w", box.ID, err)
	}
	return generic(data)
}

// generic decodes JSON without losing digits of numbers.
func generic(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return v, nil
}

package modelserver

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// conversation is a request for the model's next message, in neutral form.
type conversation struct {
	model  string
	stream bool
	// usage asks for the token counts at the end of a stream.
	usage bool
	tools map[string]tool
	// events are what has happened, oldest first.
	events []event
	// prompt is the last text that came as the user's.
	prompt string
	// side marks a request that is not the user's conversation, such as the
	// search for a title.
	side bool
}

// tool is what the agent offers to do for the model.
type tool struct {
	// kind is "function", "custom" (free text) or "local_shell".
	kind string
	// namespace is the group that the agent files the tool under, mostly "".
	namespace string
	// schema describes a function's arguments.
	schema schema
}

// schema is the part of a JSON Schema that is checked.
type schema struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

// event is a thing that happened in a conversation.
type event struct {
	// result is set for the result of a tool; else the event is an answer of
	// the model that called none, which ended a turn.
	result bool
	call   string // id of the call that the result belongs to
	text   string
	failed bool // as far as the protocol has a mark for it
}

// reply is the model's next message.
type reply struct {
	// id is unique in its conversation and the same whenever that is asked again.
	id   string
	text string
	call *call
	// step is the position of the step that is being answered, of the script's
	// end, or sideStep.
	step int
}

// sideStep stands in a record for "no step".
const sideStep = -1

// call is the use of a tool.
type call struct {
	id, name, namespace, kind string
	// arguments of a function; nil for the other kinds.
	arguments any
	// input is the text of a custom tool, or the command of the local shell.
	input string
}

// json is the arguments of a function as text.
func (c call) json() string {
	// The arguments are this package's own maps of strings and numbers.
	data, err := json.Marshal(c.arguments)
	if err != nil {
		panic(fmt.Sprintf("modelserver: encode the arguments of %s: %v", c.name, err))
	}
	return string(data)
}

// sideAnswer suits a title, a summary and a check whether the model is there.
const sideAnswer = "Scripted work"

// next is the model's next message: a pure function of script and conversation,
// so that a repeated request gets the same answer and nothing needs a session.
func (s Script) next(c conversation) (reply, error) {
	if c.side || !worksWith(c.tools) {
		return reply{id: "side", text: sideAnswer, step: sideStep}, nil
	}
	position, running := s.position(c.events)
	r := reply{step: position, id: fmt.Sprintf("%d_%d", position, len(c.events))}
	if running != nil {
		r.call = running
		r.call.id = "call_" + r.id
		return r, check(*r.call, c.tools)
	}
	var text []string
	for ; r.step < len(s) && s[r.step].Say != ""; r.step++ {
		text = append(text, s[r.step].Say)
	}
	r.id = fmt.Sprintf("%d_%d", r.step, len(c.events))
	switch {
	case r.step < len(s) && s[r.step].usesTool():
		use, err := use(s[r.step], c.tools)
		if err != nil {
			return reply{}, fmt.Errorf("step %d: %w", r.step, err)
		}
		use.id = "call_" + r.id
		r.call = &use
	case r.step < len(s):
		text = append(text, s[r.step].Finish)
	case len(text) == 0:
		text = append(text, ended)
	}
	r.text = strings.Join(text, "\n\n")
	return r, nil
}

// position is the step that a conversation has come to. running is the call
// that waits on for the last step's result, if that said it was not all.
func (s Script) position(events []event) (position int, running *call) {
	for _, e := range events {
		running = nil
		if !e.result {
			position = s.after(position)
			continue
		}
		step, ok := stepOf(e.call)
		if !ok || step >= len(s) {
			continue
		}
		position = step + 1
		if running = wait(e.text); running != nil {
			position = step
		}
	}
	return position, running
}

// stepOf reads the step out of the id of a call.
func stepOf(id string) (int, bool) {
	rest, ok := strings.CutPrefix(id, "call_")
	number, _, found := strings.Cut(rest, "_")
	step, err := strconv.Atoi(number)
	return step, ok && found && err == nil && step >= 0
}

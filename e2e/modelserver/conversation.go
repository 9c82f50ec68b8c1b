package modelserver

import (
	"encoding/json"
	"fmt"
	"regexp"
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
	// purpose is what the answer is for.
	purpose purpose
	// form is the schema of an answer that has to be JSON; nil for free text.
	form *schema
	// compact asks for a summary as an item of its own and not as a message.
	compact bool
}

type purpose int

const (
	// work is the user's conversation.
	work purpose = iota
	// aside is something beside it, such as a title for it.
	aside
	// summary is what the conversation goes on from in place of its events.
	summary
)

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

// filled is an answer of the form that s describes, with text for everything.
func (s *schema) filled(text string) string {
	if s == nil {
		return text
	}
	o := object{}
	for _, name := range s.Required {
		o[name] = text
	}
	return string(encode(o))
}

// event is a thing that happened in a conversation.
type event struct {
	kind   eventKind
	call   string // id of the call that a result belongs to
	text   string // of a result
	failed bool   // as far as the protocol has a mark for it
	step   int    // of a resumption
}

type eventKind int

const (
	// result is what a tool gave.
	result eventKind = iota
	// answer is a message of the model that called no tool, which ended a turn.
	answer
	// resumption stands for events that were summed up.
	resumption
)

// sideAnswer suits a title and a check whether the model is there.
const sideAnswer = "Scripted work"

var marker = regexp.MustCompile(`\[at step (\d+)\]`)

// summarize is the summary of a conversation that has come to a step.
func summarize(step int) string { return fmt.Sprintf("%s [at step %d]", sideAnswer, step) }

// resume finds a summary in text, which may hold an agent's own words too.
func resume(text string) (event, bool) {
	m := marker.FindStringSubmatch(text)
	if m == nil {
		return event{}, false
	}
	step, err := strconv.Atoi(m[1])
	return event{kind: resumption, step: step}, err == nil
}

// said files a message that called no tool and holds no result.
func (c *conversation) said(role, text string) {
	switch resumed, ok := resume(text); {
	case ok:
		c.events = append(c.events, resumed)
	case role == "assistant":
		c.events = append(c.events, event{kind: answer})
	}
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
	arguments object
	// input is the text of a custom tool, or the command of the local shell.
	input string
}

// json is the arguments of a function as text.
func (c call) json() string { return string(encode(c.arguments)) }

// next is the model's next message: a pure function of script and conversation,
// so that a repeated request gets the same answer and nothing needs a session.
func (s Script) next(c conversation) (reply, error) {
	position, running := s.position(c)
	switch {
	case c.purpose == summary:
		return reply{id: "summary", text: summarize(position), step: sideStep}, nil
	case c.purpose == aside || !worksWith(c.tools):
		return reply{id: "aside", text: c.form.filled(sideAnswer), step: sideStep}, nil
	}
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
func (s Script) position(c conversation) (position int, running *call) {
	for _, e := range c.events {
		running = nil
		switch e.kind {
		case resumption:
			position = min(e.step, len(s))
		case answer:
			position = s.after(position)
		case result:
			step, ok := stepOf(e.call)
			if !ok || step >= len(s) {
				continue
			}
			position = step + 1
			if running = wait(e.text, c.tools); running != nil {
				position = step
			}
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

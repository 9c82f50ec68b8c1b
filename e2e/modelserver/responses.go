package modelserver

import (
	"encoding/json"
	"net/http"
)

// The Responses API, as documented by OpenAI and as Codex uses it.

type responsesRequest struct {
	Model  string          `json:"model"`
	Stream bool            `json:"stream"`
	Input  responsesInput  `json:"input"`
	Tools  []responsesTool `json:"tools"`
	Text   struct {
		Format struct {
			Schema *schema `json:"schema"`
		} `json:"format"`
	} `json:"text"`
	Metadata struct {
		Turn string `json:"x-codex-turn-metadata"` // JSON
	} `json:"client_metadata"`
}

// purpose is what Codex says that a request is for.
func (r responsesRequest) purpose() purpose {
	var turn struct {
		Kind   string `json:"request_kind"`
		Source string `json:"thread_source"`
	}
	if json.Unmarshal([]byte(r.Metadata.Turn), &turn) != nil {
		return work // another client
	}
	switch {
	case turn.Kind == "compaction":
		return summary
	case turn.Source != "" && turn.Source != "user":
		return aside // such as a thread that looks for a title
	}
	return work
}

type responsesInput []responsesItem

type responsesItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content content         `json:"content"`
	CallID  string          `json:"call_id"`
	Output  content         `json:"output"`
	Tools   []responsesTool `json:"tools"` // of additional_tools
	// Encrypted is the summary in an item of type compaction. Only who wrote
	// it has to understand it.
	Encrypted string `json:"encrypted_content"`
}

type responsesTool struct {
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Parameters schema          `json:"parameters"`
	Tools      []responsesTool `json:"tools"` // of a namespace
}

// UnmarshalJSON takes a prompt as text or an array of items.
func (in *responsesInput) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*in = responsesInput{{Type: "message", Role: "user", Content: content{{Text: text}}}}
		return nil
	}
	var items []responsesItem
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	*in = items
	return nil
}

func decodeResponses(body []byte) (conversation, error) {
	var r responsesRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return conversation{}, err
	}
	c := conversation{
		model: r.Model, stream: r.Stream, usage: true,
		tools: map[string]tool{}, purpose: r.purpose(), form: r.Text.Format.Schema,
	}
	offer(c.tools, "", r.Tools)
	for i, item := range r.Input {
		switch item.Type {
		case "additional_tools":
			offer(c.tools, "", item.Tools)
		case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
			c.events = append(c.events, event{call: item.CallID, text: item.Output.text()})
		case compactionTrigger:
			c.compact = true
		case compaction:
			c.said("", item.Encrypted)
		case "message", "":
			if item.Role != "assistant" || !callFollows(r.Input[i+1:]) {
				c.said(item.Role, item.Content.text())
			}
			if item.Role == "user" {
				c.prompt = item.Content.text()
			}
		}
	}
	return c, nil
}

// Kinds of items for which the vendor's service sums a conversation up.
const (
	compactionTrigger = "compaction_trigger"
	compaction        = "compaction"
)

// offer files tools by name; Codex offers some in groups.
func offer(tools map[string]tool, namespace string, offered []responsesTool) {
	for _, t := range offered {
		switch t.Type {
		case "namespace":
			offer(tools, t.Name, t.Tools)
		case localShell:
			tools[localShell] = tool{kind: localShell}
		case function, custom:
			tools[t.Name] = tool{kind: t.Type, namespace: namespace, schema: t.Parameters}
		}
	}
}

// callFollows tells whether the model went on to a call after a message, which
// then ended no turn.
func callFollows(items []responsesItem) bool {
	for _, item := range items {
		switch item.Type {
		case "function_call", "custom_tool_call", "local_shell_call":
			return true
		case "message", "":
			return false
		}
	}
	return false
}

func writeResponses(w http.ResponseWriter, c conversation, r reply) {
	output := []object{}
	switch {
	case c.compact:
		output = append(output, object{"type": compaction, "id": "cmp_" + r.id, "encrypted_content": r.text})
	case r.text != "":
		output = append(output, object{
			"type": "message", "id": "msg_" + r.id, "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": r.text, "annotations": []object{}}},
		})
	}
	if r.call != nil {
		output = append(output, responsesCall(*r.call))
	}
	response := func(status string, output []object) object {
		return object{
			"id": "resp_" + r.id, "object": "response", "created_at": created, "status": status, "model": c.model,
			"output": output, "error": nil, "incomplete_details": nil, "parallel_tool_calls": false,
		}
	}
	completed := response("completed", output)
	completed["usage"] = object{
		"input_tokens": 1, "input_tokens_details": object{"cached_tokens": 0},
		"output_tokens": 1, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 2,
	}
	if !c.stream {
		writeJSON(w, http.StatusOK, completed)
		return
	}
	s, sequence := startStream(w), 0
	send := func(kind string, o object) {
		o["type"], o["sequence_number"] = kind, sequence
		sequence++
		s.send(kind, o)
	}
	send("response.created", object{"response": response("in_progress", []object{})})
	send("response.in_progress", object{"response": response("in_progress", []object{})})
	for i, item := range output {
		streamItem(send, i, item, r)
	}
	send("response.completed", object{"response": completed})
}

func responsesCall(c call) object {
	item := object{"id": "item_" + c.id, "call_id": c.id, "status": "completed"}
	switch c.kind {
	case function:
		item["type"], item["name"], item["arguments"] = "function_call", c.name, c.json()
	case custom:
		item["type"], item["name"], item["input"] = "custom_tool_call", c.name, c.input
	case localShell:
		item["type"] = "local_shell_call"
		item["action"] = object{"type": "exec", "command": []string{"bash", "-lc", c.input}, "env": object{}}
	}
	if c.namespace != "" {
		item["namespace"] = c.namespace
	}
	return item
}

// streamItem sends one item of the output: its beginning, its pieces, its end.
func streamItem(send func(string, object), index int, item object, r reply) {
	begin := object{}
	for name, value := range item {
		begin[name] = value
	}
	if item["type"] != compaction {
		begin["status"] = "in_progress"
	}
	at := func(o object) object {
		o["item_id"], o["output_index"] = item["id"], index
		return o
	}
	stream := func(kind, text string, done object, common object) {
		for piece := range pieces(text) {
			o := object{"delta": piece}
			for name, value := range common {
				o[name] = value
			}
			send(kind+".delta", at(o))
		}
		for name, value := range common {
			done[name] = value
		}
		send(kind+".done", at(done))
	}
	switch item["type"] {
	case "message":
		begin["content"] = []object{}
		send("response.output_item.added", object{"output_index": index, "item": begin})
		empty := object{"type": "output_text", "text": "", "annotations": []object{}}
		send("response.content_part.added", at(object{"content_index": 0, "part": empty}))
		stream("response.output_text", r.text, object{"text": r.text}, object{"content_index": 0})
		whole := object{"type": "output_text", "text": r.text, "annotations": []object{}}
		send("response.content_part.done", at(object{"content_index": 0, "part": whole}))
	case "function_call":
		begin["arguments"] = ""
		send("response.output_item.added", object{"output_index": index, "item": begin})
		stream("response.function_call_arguments", r.call.json(), object{"arguments": r.call.json()}, nil)
	case "custom_tool_call":
		begin["input"] = ""
		send("response.output_item.added", object{"output_index": index, "item": begin})
		stream("response.custom_tool_call_input", r.call.input, object{"input": r.call.input}, nil)
	default:
		send("response.output_item.added", object{"output_index": index, "item": begin})
	}
	send("response.output_item.done", object{"output_index": index, "item": item})
}

// openAIError is the form of errors of both of OpenAI's APIs.
func openAIError(w http.ResponseWriter, status int, message string) {
	kind, code := "invalid_request_error", any(nil)
	switch status {
	case http.StatusUnauthorized:
		code = "invalid_api_key"
	case http.StatusNotFound:
		code = "unknown_url"
	case http.StatusTooManyRequests:
		kind, code = "rate_limit_error", "rate_limit_exceeded"
	}
	writeJSON(w, status, object{"error": object{"message": message, "type": kind, "param": nil, "code": code}})
}

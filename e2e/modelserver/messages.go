package modelserver

import (
	"encoding/json"
	"net/http"
	"strings"
)

// The Messages API, as documented by Anthropic and as Claude Code uses it.

type messagesRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name   string `json:"name"`
		Schema schema `json:"input_schema"`
	} `json:"tools"`
}

// content is text, or a list of parts. All three APIs have it in this form.
type content []part

type part struct {
	Type      string  `json:"type"`
	Text      string  `json:"text"`
	ToolUseID string  `json:"tool_use_id"`
	Content   content `json:"content"`
	IsError   bool    `json:"is_error"`
}

// UnmarshalJSON takes null, a string or an array of parts.
func (c *content) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	var parts []part
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	*c = parts
	return nil
}

// text is all parts' text, a line end between two parts.
func (c content) text() string {
	var texts []string
	for _, p := range c {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// summaryRequest begins Claude Code's request to sum up a conversation, which
// offers the same tools as the conversation.
const summaryRequest = "Your task is to create a detailed summary"

func decodeMessages(body []byte) (conversation, error) {
	var r messagesRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return conversation{}, err
	}
	c := conversation{model: r.Model, stream: r.Stream, usage: true, tools: map[string]tool{}}
	for _, t := range r.Tools {
		c.tools[t.Name] = tool{kind: function, schema: t.Schema}
	}
	for _, m := range r.Messages {
		tools := false // does the message call one or bring a result?
		for _, p := range m.Content {
			tools = tools || p.Type == "tool_use" || p.Type == "tool_result"
			if p.Type == "tool_result" {
				c.events = append(c.events, event{call: p.ToolUseID, text: p.Content.text(), failed: p.IsError})
			}
		}
		if !tools {
			c.said(m.Role, m.Content.text())
		}
		if text := lastText(m.Content); m.Role == "user" && text != "" {
			c.prompt = text
		}
	}
	if strings.Contains(c.prompt, summaryRequest) {
		c.purpose = summary
	}
	return c, nil
}

// lastText is the last part that a person may have typed: Claude Code sends
// what it has to add as tagged parts beside it.
func lastText(c content) string {
	last := ""
	for _, p := range c {
		if p.Type != "tool_result" && p.Text != "" && !strings.HasPrefix(p.Text, "<system-reminder>") {
			last = p.Text
		}
	}
	return last
}

func writeMessages(w http.ResponseWriter, c conversation, r reply) {
	blocks := []object{}
	if r.text != "" {
		blocks = append(blocks, object{"type": "text", "text": r.text})
	}
	stop := "end_turn"
	if r.call != nil {
		stop = "tool_use"
		blocks = append(blocks, object{"type": "tool_use", "id": r.call.id, "name": r.call.name, "input": r.call.arguments})
	}
	message := object{
		"id": "msg_" + r.id, "type": "message", "role": "assistant", "model": c.model,
		"content": blocks, "stop_reason": stop, "stop_sequence": nil,
		"usage": object{"input_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1},
	}
	if !c.stream {
		writeJSON(w, http.StatusOK, message)
		return
	}
	s := startStream(w)
	send := func(kind string, o object) {
		o["type"] = kind
		s.send(kind, o)
	}
	message["content"], message["stop_reason"] = []object{}, nil
	send("message_start", object{"message": message})
	send("ping", object{})
	for i, block := range blocks {
		start, deltas := streamedBlock(block, r)
		send("content_block_start", object{"index": i, "content_block": start})
		for _, delta := range deltas {
			send("content_block_delta", object{"index": i, "delta": delta})
		}
		send("content_block_stop", object{"index": i})
	}
	send("message_delta", object{
		"delta": object{"stop_reason": stop, "stop_sequence": nil},
		"usage": object{"output_tokens": 1},
	})
	send("message_stop", object{})
}

// streamedBlock is how a block begins in a stream, and what then comes of it.
func streamedBlock(block object, r reply) (start object, deltas []object) {
	if block["type"] == "text" {
		for piece := range pieces(r.text) {
			deltas = append(deltas, object{"type": "text_delta", "text": piece})
		}
		return object{"type": "text", "text": ""}, deltas
	}
	for piece := range pieces(r.call.json()) {
		deltas = append(deltas, object{"type": "input_json_delta", "partial_json": piece})
	}
	return object{"type": "tool_use", "id": r.call.id, "name": r.call.name, "input": object{}}, deltas
}

func messagesError(w http.ResponseWriter, status int, message string) {
	kinds := map[int]string{
		http.StatusUnauthorized:          "authentication_error",
		http.StatusNotFound:              "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusTooManyRequests:       "rate_limit_error",
	}
	kind, ok := kinds[status]
	if !ok {
		kind = "invalid_request_error"
	}
	writeJSON(w, status, object{"type": "error", "error": object{"type": kind, "message": message}})
}

// countTokens answers with the count that a token of four bytes would give.
func countTokens(body []byte) object { return object{"input_tokens": len(body)/4 + 1} }

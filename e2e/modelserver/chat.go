package modelserver

import (
	"encoding/json"
	"net/http"
)

// The Chat Completions API, as documented by OpenAI and as OpenCode uses it.

type chatRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role       string            `json:"role"`
		Content    content           `json:"content"`
		ToolCalls  []json.RawMessage `json:"tool_calls"`
		ToolCallID string            `json:"tool_call_id"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name       string `json:"name"`
			Parameters schema `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

func decodeChat(body []byte) (conversation, error) {
	var r chatRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return conversation{}, err
	}
	c := conversation{model: r.Model, stream: r.Stream, usage: r.StreamOptions.IncludeUsage, tools: map[string]tool{}}
	for _, t := range r.Tools {
		c.tools[t.Function.Name] = tool{kind: function, schema: t.Function.Parameters}
	}
	for _, m := range r.Messages {
		switch {
		case m.Role == "tool":
			c.events = append(c.events, event{call: m.ToolCallID, text: m.Content.text()})
		case len(m.ToolCalls) == 0:
			c.said(m.Role, m.Content.text())
		}
		if m.Role == "user" {
			c.prompt = m.Content.text()
		}
	}
	return c, nil
}

// created is the time, in seconds since 1970, that all answers carry.
const created = 1767225600

func writeChat(w http.ResponseWriter, c conversation, r reply) {
	finish := "stop"
	if r.call != nil {
		finish = "tool_calls"
	}
	usage := object{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
	answer := func(kind string, choices []object) object {
		return object{"id": "chatcmpl-" + r.id, "object": kind, "created": created, "model": c.model, "choices": choices}
	}
	if !c.stream {
		message := object{"role": "assistant", "content": r.text}
		if r.call != nil {
			message["tool_calls"] = []object{chatCall(*r.call, r.call.json())}
		}
		whole := answer("chat.completion", []object{{"index": 0, "message": message, "finish_reason": finish, "logprobs": nil}})
		whole["usage"] = usage
		writeJSON(w, http.StatusOK, whole)
		return
	}
	s := startStream(w)
	send := func(delta object, finish any) {
		s.send("", answer("chat.completion.chunk", []object{{"index": 0, "delta": delta, "finish_reason": finish}}))
	}
	send(object{"role": "assistant", "content": ""}, nil)
	for piece := range pieces(r.text) {
		send(object{"content": piece}, nil)
	}
	if r.call != nil {
		first := chatCall(*r.call, "")
		first["index"] = 0
		send(object{"tool_calls": []object{first}}, nil)
		for piece := range pieces(r.call.json()) {
			send(object{"tool_calls": []object{{"index": 0, "function": object{"arguments": piece}}}}, nil)
		}
	}
	send(object{}, finish)
	if c.usage {
		last := answer("chat.completion.chunk", []object{})
		last["usage"] = usage
		s.send("", last)
	}
	s.raw("data: [DONE]\n\n")
}

func chatCall(c call, arguments string) object {
	return object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": arguments}}
}

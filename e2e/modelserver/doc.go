// Package modelserver is a model that plays scripts, for end-to-end tests: the
// real Claude Code, Codex and OpenCode take it for their vendor's service.
//
// It speaks Anthropic's Messages API, OpenAI's Responses API and Chat
// Completions, streamed and whole. A script is a list of neutral steps; each
// step becomes the use of a tool that the agent itself has offered.
//
// Invariants:
//   - The answer to a request follows from the script and the conversation in
//     the request alone. A repeated request gets the same answer; requests
//     beside the conversation, for a title say, never advance the script.
//   - A call is held against the agent's own description of the tool. What the
//     agent would not take is refused with the reason and never sent.
//   - Every request is recorded before its answer is sent, those that nobody
//     foresaw too, which get 404 in the form of the API that was asked.
//   - Requests, their number and what is recorded of them are bounded.
package modelserver

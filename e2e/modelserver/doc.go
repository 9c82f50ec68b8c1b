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
//
// # Agents
//
// Below the URL of a script, Claude Code takes it as ANTHROPIC_BASE_URL; Codex
// as openai_base_url or the base_url of a provider, OpenCode as baseURL of a
// provider, both with /v1 behind it. No variable sets Codex's base URL. This
// package's tests hold the files, flags and variables with which each agent of
// images/full/agents starts without a question:
//
//   - Claude Code asks about onboarding, the folder, the key, skipped
//     permissions and the auto mode; a project makes it ask about imports that
//     leave it and about its MCP servers. It takes a token in
//     ANTHROPIC_AUTH_TOKEN without a question.
//   - Codex asks for a login unless auth.json or the env_key of the provider
//     gives a key, about the folder, and about a project's hooks. It tries a
//     websocket first, which is refused with 426, unless the provider is the
//     user's own.
//   - OpenCode asks nothing, but loses what is typed before it has drawn.
//
// Claude Code's and Codex's summaries of a conversation keep the step that the
// script had come to. OpenCode sums up text that has no ids of calls in it:
// after that the script begins again.
package modelserver

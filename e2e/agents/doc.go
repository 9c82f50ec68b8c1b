// Package agents is the end-to-end suite of the coding agents: the real Claude
// Code, Codex and OpenCode work in a real box of the full image, started by the
// built agentbox command, as a user starts them. Their model is the scripted
// one, which runs in the box's own network; its address and its key reach the
// agents by the caller's environment alone.
package agents

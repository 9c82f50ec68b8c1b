module github.com/madarco/agentbox/relay

go 1.26.0

require github.com/madarco/agentbox/core v0.1.0

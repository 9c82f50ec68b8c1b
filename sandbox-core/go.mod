module github.com/madarco/agentbox/sandbox-core

go 1.26.0

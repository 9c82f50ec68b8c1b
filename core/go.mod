module github.com/madarco/agentbox/core

go 1.26.0

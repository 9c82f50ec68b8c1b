module github.com/madarco/agentbox/cli

go 1.26.0

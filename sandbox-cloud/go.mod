module github.com/madarco/agentbox/sandbox-cloud

go 1.26.0

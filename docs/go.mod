module github.com/madarco/agentbox/docs

go 1.26.0

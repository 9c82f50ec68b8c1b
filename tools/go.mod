module github.com/madarco/agentbox/tools

go 1.26.0

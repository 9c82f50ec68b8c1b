module github.com/madarco/agentbox/e2e

go 1.26.0

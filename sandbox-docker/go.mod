module github.com/madarco/agentbox/sandbox-docker

go 1.26.0

module github.com/madarco/agentbox/images

go 1.26.0

module github.com/madarco/agentbox/ctl

go 1.26.0

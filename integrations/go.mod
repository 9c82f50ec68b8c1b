module github.com/madarco/agentbox/integrations

go 1.26.0

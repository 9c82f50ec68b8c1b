module github.com/madarco/agentbox/integrations

go 1.26.0

require github.com/madarco/agentbox/core v0.1.0

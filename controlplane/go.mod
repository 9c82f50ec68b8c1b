module github.com/madarco/agentbox/controlplane

go 1.26.0

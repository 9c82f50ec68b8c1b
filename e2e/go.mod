module github.com/madarco/agentbox/e2e

go 1.26.0

require (
	github.com/creack/pty v1.1.24
	github.com/go-git/go-billy/v5 v5.9.0
	github.com/go-git/go-git/v5 v5.19.3
	github.com/madarco/agentbox/core v0.1.0
)

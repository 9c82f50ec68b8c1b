// Package restart is the end-to-end suite of what a user finds when the Docker
// engine, or the whole machine, went down under running boxes. It runs an engine
// of its own, so that nobody else's is ended.
package restart

// Package mainjob is the end-to-end suite of the product's main job: an agent
// works in a box on a real repository, its commits land, and its pushes go
// through the host. It drives the built agentbox command, as a user would, on
// a real engine and against a real smart-HTTP remote with credentials.
package mainjob

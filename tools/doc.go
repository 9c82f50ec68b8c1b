// Package tools holds the project's own build tools: the module packer, the
// generators and the benchmarks. It is never published.
package tools

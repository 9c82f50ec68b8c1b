// Package docs is the documentation, embedded so that tests can hold it
// against the code.
package docs

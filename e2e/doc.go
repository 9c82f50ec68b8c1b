// Package e2e proves the product end to end: real engine, real image, real git
// and a real remote. It is never published.
package e2e

// Package images is the box image as an embedded file system: Dockerfile,
// in-box scripts and configuration, and the fingerprint over all of it.
//
// Invariant: the fingerprint covers every file that the build reads, so an
// image with the right fingerprint is the image that this version would build.
package images

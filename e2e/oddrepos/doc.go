// Package oddrepos proves that a box gets the user's repository as it is,
// whatever its shape: status, trees and bytes in the box equal the user's, and
// nothing of the user's changes by it. Every odd repository is built by a
// script, captured by the host's code and rebuilt by the box's, with the git of
// this machine and with the oldest and newest of Debian's suites.
package oddrepos

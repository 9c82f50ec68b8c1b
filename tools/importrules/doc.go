// Package importrules holds the workspace against its architecture: which
// module may import which, where a library may be used, who may start
// programs, and what each binary links.
//
// Rules that are promises of the product stand in rules.go as data. Everything
// else is a list under lists/, one file per module and per binary, that a
// person reads in the diff when it changes:
//
//	go test ./tools/importrules -update
//
// Test code is held to the module table too, since its requirements are in the
// same go.mod, and to no other rule.
package importrules

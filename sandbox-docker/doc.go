// Package sandboxdocker is the provider that makes boxes as containers of a
// local Docker engine. Package engine is the part that knows no host path and
// drives remote engines too; package seccomp generates the system call
// profiles.
//
// Invariants:
//   - Every box is sealed: no added capability, NET_RAW and MKNOD dropped, our
//     own seccomp profile, no device, no writable host bind, bounded memory,
//     processes and CPU.
//   - Every box has a network of its own.
//   - No token is in a container's environment, argv, labels or image.
//   - A create that fails removes everything that it made.
package sandboxdocker

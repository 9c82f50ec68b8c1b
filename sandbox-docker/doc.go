// Package sandboxdocker is the provider that makes boxes as containers of a
// local Docker engine. Package engine is the part that knows no host path and
// drives remote engines too; package seccomp holds the system call profiles.
//
// Invariants:
//   - Every box is sealed: no added capability, NET_RAW and MKNOD dropped, our
//     own seccomp profile, no device, no writable host bind, bounded memory,
//     processes and log.
//   - Every box has a network of its own.
//   - No token is in a container's environment, argv, labels or image.
//   - A create that fails, or is cancelled, removes everything that it made,
//     and nothing else: what it makes carries a mark of that one attempt.
//   - What a box answers is capped, decoded strictly, and quoted.
package sandboxdocker

// Package ring keeps the newest events of each box in files, for drivers of
// store that want events cheaper than a database row.
//
// A box has a folder, and in it segments: files to which events are only
// appended. A segment is named by the number of its first event. It begins with
// a mark and the place in the feed of all boxes that was reached before it;
// then come records:
//
//	length uint32 | CRC-32C uint32 | number int64 | place int64 | the event as JSON
//
// all big endian. The length counts what follows the checksum, which covers it
// and the length itself.
//
// Nothing is flushed to the disk. What was handed to the kernel outlives the
// process however that ends; a cut of the power may tear the end off, and what
// is torn is left out when the files are read again.
//
// Invariants:
//   - Append returns after the whole record was handed to the kernel.
//   - The events kept of a box have numbers without a gap, at most store.RingSize
//     of them in at most store.RingBytes of records. On disk lies at most one
//     segment more.
//   - A segment is appended to only by the process that began it: nothing is
//     ever written behind a torn record.
//   - Numbers and places only grow, also over Reset, which leaves an empty
//     segment that tells both.
//   - A segment in a form that a newer version wrote is left as it is.
package ring

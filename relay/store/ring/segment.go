package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/madarco/agentbox/relay/store"
)

const (
	// family begins every segment, form says how the rest is to be read.
	family = "AGBXEVT"
	form   = '1'
	// markSize is the mark and the place that was reached.
	markSize = len(family) + 1 + 8
	// sumSize is length and checksum, headSize all before the JSON.
	sumSize  = 8
	headSize = sumSize + 16
	// segmentBytes is where the next segment begins: small enough that what
	// has left the ring soon leaves the disk.
	segmentBytes = 256 << 10
	// maxRecord bounds a record that is read: JSON writes at most six bytes
	// for one of an event's, and puts some names and the box's id around.
	maxRecord = 6*store.MaxEventBytes + 4<<10

	suffix = ".events"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func segmentName(first int64) string { return fmt.Sprintf("%019d%s", first, suffix) }

func mark(place int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(family+string(form)), uint64(place))
}

// frame writes a record around body over buf.
func frame(buf []byte, number, place int64, body []byte) []byte {
	buf = append(buf[:0], make([]byte, sumSize)...)
	buf = binary.BigEndian.AppendUint64(buf, uint64(number))
	buf = binary.BigEndian.AppendUint64(buf, uint64(place))
	buf = append(buf, body...)
	binary.BigEndian.PutUint32(buf, uint32(len(buf)-sumSize))
	binary.BigEndian.PutUint32(buf[4:], checksum(buf))
	return buf
}

func checksum(record []byte) uint32 {
	return crc32.Update(crc32.Checksum(record[:4], castagnoli), castagnoli, record[sumSize:])
}

// record is one that was read; size counts its whole frame.
type record struct {
	number, place int64
	size          int
	body          []byte
}

// parse reads the record at the beginning of data; false when it is torn.
func parse(data []byte) (record, bool) {
	if len(data) < headSize {
		return record{}, false
	}
	length := int64(binary.BigEndian.Uint32(data))
	if length < headSize-sumSize || length > maxRecord || length > int64(len(data)-sumSize) {
		return record{}, false
	}
	data = data[:sumSize+length]
	if binary.BigEndian.Uint32(data[4:]) != checksum(data) {
		return record{}, false
	}
	return record{
		number: int64(binary.BigEndian.Uint64(data[sumSize:])),
		place:  int64(binary.BigEndian.Uint64(data[sumSize+8:])),
		size:   len(data),
		body:   data[headSize:],
	}, true
}

// load reads what a box's folder holds.
func load(dir string) (*box, error) {
	b := &box{dir: dir}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files { // in the order of their names, which is that of their numbers
		digits, ours := strings.CutSuffix(f.Name(), suffix)
		first, err := strconv.ParseInt(digits, 10, 64)
		if !ours || err != nil || first < 1 || f.Name() != segmentName(first) || !f.Type().IsRegular() {
			continue
		}
		if err := b.loadSegment(first); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *box) loadSegment(first int64) error {
	path := filepath.Join(b.dir, segmentName(first))
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b.segments = append(b.segments, first)
	if len(data) < markSize || string(data[:len(family)]) != family {
		return nil // torn before it was begun
	}
	if data[len(family)] == 0 {
		return nil // torn within the mark
	}
	if data[len(family)] != form {
		return fmt.Errorf("read %s: %w: install the newer agentbox again, or move the file away", path, store.ErrNewerSchema)
	}
	if first-1 > b.last { // what was torn out lies between
		b.entries, b.bytes, b.last = nil, 0, first-1
	}
	b.place = max(b.place, int64(binary.BigEndian.Uint64(data[markSize-8:])))
	for at := markSize; ; {
		r, ok := parse(data[at:])
		if !ok || r.number != b.last+1 || r.place <= b.place {
			return nil
		}
		b.keep(entry{place: r.place, segment: first, at: int64(at), size: r.size}, r.number)
		at += r.size
	}
}

// drop removes the segments that end before the one named first.
func (b *box) drop(first int64) error {
	var errs []error
	b.segments = slices.DeleteFunc(b.segments, func(s int64) bool {
		if s >= first {
			return false
		}
		err := os.Remove(filepath.Join(b.dir, segmentName(s)))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

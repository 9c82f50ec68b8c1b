package handin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
)

var good = Header{Tips: []Tip{
	{RepoKey: "0123456789abcdef", Branch: "agentbox/b", OID: "000000000000000000000000000000000000000a"},
	{RepoKey: "0123456789abcdef", Branch: "main", OID: "000000000000000000000000000000000000000b"},
}}

func TestHeaderReadsBackAndLeavesThePacks(t *testing.T) {
	var stream bytes.Buffer
	if err := WriteHeader(&stream, good); err != nil {
		t.Fatal(err)
	}
	stream.WriteString("packs")
	got, err := ReadHeader(&stream)
	if err != nil || !reflect.DeepEqual(got, good) {
		t.Errorf("ReadHeader = %+v, %v", got, err)
	}
	if stream.String() != "packs" {
		t.Errorf("%q is left", stream.String())
	}
}

func framed(body string) string {
	return string(binary.BigEndian.AppendUint32([]byte(magic), uint32(len(body)))) + body
}

func TestMalformedHeadersAreRefused(t *testing.T) {
	tip := `{"repoKey":"0123456789abcdef","branch":"a","oid":"000000000000000000000000000000000000000a"}`
	for name, stream := range map[string]string{
		"empty":             "",
		"another magic":     "abxset01\x00\x00\x00\x02{}",
		"a vast length":     magic + "\xff\xff\xff\xff",
		"cut off":           magic + "\x00\x00\x00\x09{}",
		"not JSON":          framed("hello"),
		"unknown key":       framed(`{"tips":[],"path":"/etc"}`),
		"unknown inner key": framed(`{"tips":[{"repoKey":"0123456789abcdef","branch":"a","oid":"000000000000000000000000000000000000000a","path":"/etc"}]}`),
		"key as a path":     framed(strings.Replace(`{"tips":[`+tip+`]}`, "0123456789abcdef", "../../../../../etc", 1)),
		"option as branch":  framed(strings.Replace(`{"tips":[`+tip+`]}`, `"a"`, `"--force"`, 1)),
		"no branch":         framed(strings.Replace(`{"tips":[`+tip+`]}`, `"a"`, `""`, 1)),
		"name as id":        framed(strings.Replace(`{"tips":[`+tip+`]}`, "000000000000000000000000000000000000000a", "main", 1)),
		"zero id":           framed(strings.Replace(`{"tips":[`+tip+`]}`, "0a", "00", 1)),
		"twice":             framed(`{"tips":[` + tip + `,` + tip + `]}`),
		"trailing data":     framed(`{"tips":[]}{}`),
		"too many":          framed(`{"tips":[` + strings.Repeat(tip+",", maxTips) + tip + `]}`),
	} {
		if _, err := ReadHeader(strings.NewReader(stream)); !errors.Is(err, ErrBadStream) {
			t.Errorf("%s: %v, want ErrBadStream", name, err)
		}
	}
}

func FuzzReadHeader(f *testing.F) {
	var stream bytes.Buffer
	if err := WriteHeader(&stream, good); err != nil {
		f.Fatal(err)
	}
	f.Add(stream.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ReadHeader(bytes.NewReader(data))
		if err != nil {
			return
		}
		if err := WriteHeader(&bytes.Buffer{}, h); err != nil {
			t.Errorf("%+v reads and does not write: %v", h, err)
		}
	})
}

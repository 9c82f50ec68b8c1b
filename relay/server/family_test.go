package server

import (
	"testing"

	"github.com/madarco/agentbox/relay"
)

type named struct {
	relay.Method
	name string
}

func TestAFamilyAnswersForNamesWithoutAMethod(t *testing.T) {
	methods := map[string]relay.Method{}
	for _, name := range []string{"a.*", "a.b", "c.d"} {
		methods[name] = named{name: name}
	}
	s := &Server{cfg: Config{Methods: methods}}
	for name, want := range map[string]string{
		"a.b": "a.b", "a.c": "a.*", "a.": "a.*", "a.b.c": "a.*", "c.d": "c.d",
		"a": "", "c.e": "", "": "", ".": "", "ab.c": "", "A.b": "", "x.a.b": "",
	} {
		m, ok := s.hostMethod(name)
		if ok != (want != "") || ok && m.(named).name != want {
			t.Errorf("%q is %v, %v, want %q", name, m, ok, want)
		}
	}
}

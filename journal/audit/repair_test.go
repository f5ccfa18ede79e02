package audit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExamineAndRepair(t *testing.T) {
	s := newStage(t)
	const good = "{\"event\":\"a\",\"token\":7}\n{\"event\":\"b\",\"token\":\"odd\"}\n"
	const damaged = "[1]\n{\"eve\n\nnull\n\xff\n"
	s.write(oldName, good+damaged+good+"{\"un\x00\x00")
	s.write(Name, good+"{\"unfinished")
	before := s.files()
	examine := func(want ...Examined) {
		t.Helper()
		if diff := cmp.Diff(want, must[[]Examined](t)(Examine(s.dir))); diff != "" {
			t.Error(diff)
		}
	}
	current := Examined{Name: Name, Token: 7, TornAt: int64(len(good)), Torn: 12}
	examine(current, Examined{
		Name: oldName, Token: 7, Damaged: 5, First: int64(len(good)), TornAt: int64(len(good + damaged + good)), Torn: 6,
	})
	if diff := cmp.Diff(before, s.files()); diff != "" {
		t.Errorf("Examine has changed something: %s", diff)
	}
	if aside := must[string](t)(Repair(s.dir)); aside != damagedName {
		t.Errorf("moved to %q", aside)
	}
	files := s.files()
	if files[oldName] != good+good || files[damagedName] != damaged+"{\"un\x00\x00" {
		t.Errorf("the part is %q, aside is %q", files[oldName], files[damagedName])
	}
	if !strings.HasSuffix(files[Name], "{\"unfinished") {
		t.Error("the unfinished end is not left to Open")
	}
	examine(current, Examined{Name: oldName, Token: 7, TornAt: int64(len(good + good))})
	if aside := must[string](t)(Repair(s.dir)); aside != "" {
		t.Errorf("moved again, to %q", aside)
	}
	check(t, s.open().Close())
	for name := range s.files() {
		if !Known(name) {
			t.Errorf("%s is not known", name)
		}
	}
}

func TestExamineWithoutATrail(t *testing.T) {
	s := newStage(t)
	if parts := must[[]Examined](t)(Examine(s.dir)); len(parts) > 0 || len(s.files()) > 0 {
		t.Errorf("%v, and %d files", parts, len(s.files()))
	}
	if Known("journal.new") {
		t.Error("a file of the journal is taken for one of the trail")
	}
}

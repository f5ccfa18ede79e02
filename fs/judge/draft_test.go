package judge

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/policy"
)

func TestDraft(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		paths  []string
		asked  bool
		as     string // the name as which it is refused; "" if it is not
		looked int
	}{
		"nothing is asked":           {"{", []string{"free", "other"}, false, "", 0},
		"accepted":                   {"{}", []string{"json"}, true, "", 1},
		"refused":                    {"{", []string{"json"}, true, "json", 1},
		"refused as another name":    {"{", []string{"free", "json"}, true, "another name", 1},
		"accepted as all":            {"{}", []string{"json", "free", "short"}, true, "", 2},
		"the own name is first":      {"{ ", []string{"json", "short"}, true, "json", 1},
		"accepted as the first only": {"{ }", []string{"json", "short"}, true, "another name", 2},
	} {
		s := newStage(t)
		s.rules(asJSON, "json")
		s.rules(&policy.Validation{MaxSize: 2}, "short")
		var a Accepted
		d := s.draft(c.text, c.paths...)
		asked, err := a.Judge(s.Judge, d)
		refusedBy(t, err)
		if asked != c.asked || (err == nil) != (c.as == "") || d.looked != c.looked {
			t.Errorf("%s: asked %v, %v, the base was looked at %d times", name, asked, err, d.looked)
		}
		if err != nil && strings.Contains(err.Error(), "another name") != (c.as == "another name") {
			t.Errorf("%s: %v", name, err)
		}
		if a.Stands(s.Judge, d) != (err == nil) {
			t.Errorf("%s: it stands %v", name, a.Stands(s.Judge, d))
		}
	}
}

// Who writes over what is no longer there is told that, whatever he has written.
func TestDraftWithoutItsBase(t *testing.T) {
	s := newStage(t)
	s.rules(asJSON, "json")
	d := s.draft("{", "json")
	d.base = unix.ESTALE
	var a Accepted
	if asked, err := a.Judge(s.Judge, d); asked || err != unix.ESTALE {
		t.Errorf("asked %v, %v", asked, err)
	}
}

// What the validators have accepted is that content, until it changes.
func TestAccepted(t *testing.T) {
	s := newStage(t)
	s.rules(asJSON, "json")
	d := s.draft("{}", "json")
	var a Accepted
	if a.Stands(s.Judge, d) {
		t.Error("it was accepted before it was judged")
	}
	if _, err := a.Judge(s.Judge, d); err != nil || !a.Stands(s.Judge, d) {
		t.Fatalf("it was not accepted: %v", err)
	}
	if a.Clear(); a.Stands(s.Judge, d) {
		t.Error("it stands when all was forgotten")
	}
	if _, err := a.Judge(s.Judge, d); err != nil {
		t.Fatal(err)
	}
	write(t, d.file, "{ }")
	if a.Stands(s.Judge, d) {
		t.Error("other content stands")
	}
	s.rules(nil, "json")
	if !a.Stands(s.Judge, d) {
		t.Error("where nothing is asked it does not stand")
	}
	// A name that the file has got since has rules of its own.
	s.rules(asJSON, "second")
	if d.paths = append(d.paths, "second"); a.Stands(s.Judge, d) {
		t.Error("it stands under a name that nobody was asked about")
	}
}

package judge

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/policy"
)

func TestTakesTime(t *testing.T) {
	s := newStage(t)
	small, large := s.content(strings.Repeat(" ", QuickSize)), s.content(strings.Repeat(" ", QuickSize+1))
	gone := &content{err: unix.ENOENT}
	asked := &policy.Validation{Command: []string{"true"}}
	for name, c := range map[string]struct {
		list []Candidate
		want bool
	}{
		"none":                       {nil, false},
		"what is small":              {[]Candidate{{small, "a", asJSON}}, false},
		"what is large":              {[]Candidate{{large, "a", asJSON}}, true},
		"a large one behind a small": {[]Candidate{{small, "a", asJSON}, {large, "b", asJSON}}, true},
		"what a command judges":      {[]Candidate{{small, "a", asked}}, true},
		"what is not there":          {[]Candidate{{gone, "a", asked}}, false},
		"one behind that":            {[]Candidate{{gone, "a", asked}, {large, "b", asJSON}}, true},
		"what is being ended":        {[]Candidate{{&content{pending: true, err: unix.ENOENT}, "a", asJSON}}, true},
	} {
		if got := TakesTime(c.list); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The candidates are judged in their order, each by its own rules; the first that is not
// accepted ends it.
func TestAdmit(t *testing.T) {
	s := newStage(t)
	var p Passed
	good, bad, last := s.content("{}"), s.content("{"), s.content("[]")
	list := []Candidate{{good, "a", asJSON}, {bad, "b", asJSON}, {last, "c", asJSON}}
	k, err := s.Admit(s.Context(), &p, 0, list)
	if k != &list[1] || refusedBy(t, err) != string(policy.JSON) {
		t.Errorf("refused: %+v, %v", k, err)
	}
	if good.opened != 1 || last.opened != 0 {
		t.Errorf("opened: %d, %d", good.opened, last.opened)
	}
	list[1].Rules = &policy.Validation{MaxSize: 1}
	if k, err := s.Admit(s.Context(), &p, 0, list); k != nil || err != nil {
		t.Errorf("refused: %+v, %v", k, err)
	}
	for _, want := range []error{ErrEnded, unix.EACCES} {
		list[1].Content = &content{err: want}
		if k, err := s.Admit(s.Context(), &p, 0, list); k != &list[1] || !errors.Is(err, want) {
			t.Errorf("%v is %+v, %v", want, k, err)
		}
	}
}

// What has passed is not looked at again, as long as it is the same under the same name.
func TestPassed(t *testing.T) {
	s := newStage(t)
	var p Passed
	k := s.content("{}")
	admit := func(path string, v *policy.Validation) error {
		_, err := s.Admit(s.Context(), &p, 0, []Candidate{{k, path, v}})
		return err
	}
	picky := &policy.Validation{MaxSize: 1}
	fd, err := k.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if p.Has("a", fd) {
		t.Error("it has passed before it was judged")
	}
	if admit("a", picky) == nil || p.Has("a", fd) {
		t.Error("what was refused has passed")
	}
	if err := admit("a", asJSON); err != nil || !p.Has("a", fd) || p.Has("b", fd) {
		t.Errorf("what was accepted: %v", err)
	}
	if err := admit("a", picky); err != nil {
		t.Errorf("it was judged again: %v", err)
	}
	if admit("b", picky) == nil {
		t.Error("it has passed under another name")
	}
	if err := admit("b", asJSON); err != nil || !p.Has("a", fd) || !p.Has("b", fd) {
		t.Errorf("a second name: %v, %v, %v", err, p.Has("a", fd), p.Has("b", fd))
	}
	if p.Has("a", -1) {
		t.Error("no file has passed")
	}
	write(t, k.path, "{ }")
	if p.Has("a", fd) || admit("a", picky) == nil {
		t.Error("other content has passed")
	}
}

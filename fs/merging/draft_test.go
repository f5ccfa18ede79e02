package merging

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
)

// draft is a Draft in a file of the stage.
type draft struct {
	theirs   File
	fd       int
	inPlace  bool
	rewrites int
	full     error
}

func (d *draft) Theirs() File  { return d.theirs }
func (d *draft) InPlace() bool { return d.inPlace }
func (d *draft) FD() int       { return d.fd }
func (d *draft) Rewrite(do func() error) error {
	d.rewrites++
	if d.full != nil {
		return d.full
	}
	return do()
}

// drafted is what a writer has written over f.
func (s *stage) drafted(text string) *draft {
	s.t.Helper()
	s.put("draft", text)
	return &draft{theirs: s.look("f"), fd: s.open("draft")}
}

// What both have changed is in the draft, until it is taken back.
func TestJoin(t *testing.T) {
	s := newStage(t)
	g := s.merge()
	d := s.drafted(mine)
	if changed, err := Join(g, d); err != nil || !changed || !g.IsJoined() {
		t.Fatalf("changed %v, joined %v, %v", changed, g.IsJoined(), err)
	}
	s.holds("draft", both)
	s.holds("f", theirs)
	if err := TakeBack(g, d.fd); err != nil {
		t.Fatal(err)
	}
	s.holds("draft", mine)
	if err := TakeBack(g, -1); err != nil {
		t.Errorf("it is taken back twice: %v", err)
	}
	if d.rewrites != 1 {
		t.Errorf("rewritten %d times", d.rewrites)
	}
}

// Where the joined content is what was written, that stays untouched.
func TestJoinChangesNothing(t *testing.T) {
	s := newStage(t)
	g := s.merge()
	d := s.drafted(both)
	if changed, err := Join(g, d); err != nil || changed || d.rewrites != 0 {
		t.Errorf("changed %v, %v, rewritten %d times", changed, err, d.rewrites)
	}
	if err := TakeBack(g, -1); err != nil {
		t.Errorf("nothing is taken back: %v", err)
	}
	if err := TakeBack(nil, -1); err != nil {
		t.Errorf("nothing was merged: %v", err)
	}
}

func TestNotJoined(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		of    func(s *stage, d *draft)
		errno unix.Errno // 0: the two cannot be merged
		says  string
	}{
		"in the same place":         {other, func(*stage, *draft) {}, 0, "line"},
		"written in place":          {mine, func(_ *stage, d *draft) { d.inPlace = true }, 0, lostupdate.KeepsInode},
		"replaced meanwhile":        {mine, func(s *stage, _ *draft) { s.put("f", "x") }, unix.EBUSY, "the file cannot be read, to be merged with: "},
		"what was written is large": {strings.Repeat("x", 64<<20), func(*stage, *draft) {}, unix.EFBIG, "what was written cannot be read, to be merged: "},
		"no room":                   {mine, func(_ *stage, d *draft) { d.full = unix.ENOSPC }, unix.ENOSPC, "the merged content cannot be written: "},
	} {
		s := newStage(t)
		g := s.merge()
		d := s.drafted(c.text)
		c.of(s, d)
		changed, err := Join(g, d)
		var n *lostupdate.NotMerged
		var e unix.Errno
		switch {
		case changed, err == nil:
			t.Errorf("%s: changed %v, %v", name, changed, err)
		case c.errno == 0 && !errors.As(err, &n), c.errno != 0 && (!errors.As(err, &e) || e != c.errno):
			t.Errorf("%s: %v", name, err)
		case !strings.Contains(err.Error(), c.says), c.errno != 0 && !strings.HasPrefix(err.Error(), c.says):
			t.Errorf("%s: it says %q", name, err)
		}
		s.holds("draft", c.text)
	}
}

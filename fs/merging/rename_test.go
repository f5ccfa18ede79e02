package merging

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/bases"
	"latchfs/fs/lostupdate"
	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
)

// renaming is a rename of t over f.
type renaming struct {
	s       *stage
	said    []string // what the engine was asked for, in order
	inPlace error
	shadow  error
	full    error
	refusal error
	recover error
	judged  string // the content that was judged
	as      string // as that of which path
	o       commit.PublishOptions
	before  *unix.Stat_t
	after   *unix.Stat_t
	target  int

	plain, unreadable bool
	rules             *policy.Validation
}

func (r *renaming) IsSave() bool              { return !r.plain }
func (r *renaming) MayRead() bool             { return !r.unreadable }
func (r *renaming) Rules() *policy.Validation { return r.rules }
func (r *renaming) DirPath() string           { return "dir" }

func (r *renaming) say(what string, err error) error {
	r.said = append(r.said, what)
	return err
}

// shadow is a Shadow in a file of the stage.
type shadow struct {
	r  *renaming
	fd int
}

func (r *renaming) Shadow(target int) (Shadow, func(), error) {
	r.target = target
	if r.shadow != nil {
		return nil, nil, r.say("shadow", r.shadow)
	}
	r.s.put("shadow", "")
	return &shadow{r, r.s.open("shadow")}, func() { _ = r.say("discard", nil) }, r.say("shadow", nil)
}

func (r *renaming) Rewrite(do func() error) error {
	if r.full != nil {
		return r.say("write", r.full)
	}
	return r.say("write", do())
}

func (r *renaming) Judge(fd int, path string) error {
	b, _, err := bases.Read(fd)
	if err != nil {
		r.s.t.Error(err)
	}
	r.judged, r.as = string(b), path
	return r.say("judge", r.refusal)
}

func (sh *shadow) FD() int { return sh.fd }
func (sh *shadow) InPlace(target int, o commit.PublishOptions) (commit.Version, error) {
	sh.r.o = o
	b, _, err := bases.Read(sh.fd)
	if err != nil || target != sh.r.target {
		sh.r.s.t.Errorf("%v, target %d of %d", err, target, sh.r.target)
	}
	if e := sh.r.inPlace; e == nil || errors.Is(e, commit.ErrNotDurable) || errors.Is(e, commit.ErrRedoPending) {
		if err := Write(target, b); err != nil {
			sh.r.s.t.Error(err)
		}
	}
	return commit.Version{}, sh.r.say("in place", sh.r.inPlace)
}

func (r *renaming) Recover() error { return r.say("recover", r.recover) }
func (r *renaming) Rewritten(before, after *unix.Stat_t) {
	r.before, r.after = before, after
	_ = r.say("rewritten", nil)
}

func (r *renaming) want(said ...string) {
	r.s.t.Helper()
	if !slices.Equal(r.said, said) {
		r.s.t.Errorf("the engine was asked for %q, want %q", r.said, said)
	}
	r.said = nil
}

func TestMayMerge(t *testing.T) {
	file := func(size int64) *unix.Stat_t { return &unix.Stat_t{Mode: unix.S_IFREG | 0o600, Size: size, Nlink: 1} }
	linked := file(3)
	linked.Nlink = 2
	asked := &policy.Validation{Command: []string{"true"}}
	for name, c := range map[string]struct {
		r        renaming
		from, to *unix.Stat_t
		want     bool
		apart    string // a part of it
	}{
		"a save":                {renaming{}, file(3), file(4), true, ""},
		"as large as can be":    {renaming{}, file(MaxRename), file(MaxRename), true, ""},
		"what is too large":     {renaming{}, file(MaxRename + 1), file(4), false, "too large"},
		"over such a file":      {renaming{}, file(3), file(MaxRename + 1), false, "too large"},
		"not a save":            {renaming{plain: true}, file(MaxRename + 1), file(4), false, ""},
		"what has no name":      {renaming{}, nil, file(4), false, ""},
		"a link":                {renaming{}, &unix.Stat_t{Mode: unix.S_IFLNK, Nlink: 1}, file(4), false, ""},
		"one of several names":  {renaming{}, linked, file(4), false, ""},
		"over a secret":         {renaming{unreadable: true}, file(3), file(4), false, "may not read"},
		"as what is judged":     {renaming{rules: &policy.Validation{NonEmpty: true}}, file(3), file(4), true, ""},
		"what a command judges": {renaming{rules: asked}, file(3), file(4), false, "a command"},
	} {
		var x lostupdate.Loss
		if got := MayMerge(&x, &c.r, c.from, c.to); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if !strings.Contains(x.Apart, c.apart) || (x.Apart == "") != (c.apart == "") {
			t.Errorf("%s: kept apart for %q", name, x.Apart)
		}
	}
}

// The temporary file holds both changes before it is renamed, and what was written when
// that fails.
func TestInto(t *testing.T) {
	s := newStage(t)
	g, r := s.merge(), &renaming{s: s}
	from := s.put("t", mine)
	was := *from.Stat
	is, err := Into(r, g, from, s.look("f"))
	if err != nil || bases.StampOf(is) != bases.StampOf(s.look("t").Stat) {
		t.Fatalf("%v, %+v", err, is)
	}
	s.holds("t", both)
	s.holds("f", theirs)
	r.want("shadow", "write", "judge", "in place", "rewritten", "discard")
	if r.judged != both || r.as != "f" {
		t.Errorf("%q was judged as %q", r.judged, r.as)
	}
	if r.before.Ino != was.Ino || bases.StampOf(r.before) != bases.StampOf(&was) || r.after.Ino != was.Ino || r.after != is {
		t.Errorf("rewritten from %+v to %+v", r.before, r.after)
	}
	if o := r.o; o.Dir != s.dir || o.DirPath != "dir" || o.Name != "t" || o.Base == nil || *o.Base != commit.VersionOf(&was) {
		t.Errorf("in place with %+v", o)
	}
	from.Stat = is
	if is, err = Back(r, g, from); err != nil || bases.StampOf(is) != bases.StampOf(s.look("t").Stat) {
		t.Fatalf("%v, %+v", err, is)
	}
	s.holds("t", mine)
	r.want("shadow", "write", "judge", "in place", "rewritten", "discard")
	if r.as != "" {
		t.Errorf("what its writer has written was judged as %q", r.as)
	}
}

// Where what comes out is what was written, and where nothing was merged, nothing is done.
func TestIntoChangesNothing(t *testing.T) {
	s := newStage(t)
	g, r := s.merge(), &renaming{s: s}
	from := s.put("t", both)
	if is, err := Into(r, g, from, s.look("f")); err != nil || is != from.Stat || !g.IsJoined() {
		t.Errorf("%v, %+v", err, is)
	}
	for _, g := range []*lostupdate.Merge{g, nil} {
		if is, err := Back(r, g, from); err != nil || is != from.Stat {
			t.Errorf("%v, %+v", err, is)
		}
	}
	s.holds("t", both)
	r.want()
}

func TestNotInto(t *testing.T) {
	refused := errors.New("refused")
	conflict := errors.New("conflict")
	for name, c := range map[string]struct {
		text string
		r    renaming
		of   func(s *stage)
		want error // nil: the two cannot be merged
		said []string
	}{
		"in the same place":  {other, renaming{}, func(*stage) {}, nil, nil},
		"replaced meanwhile": {mine, renaming{}, func(s *stage) { s.put("f", "x") }, unix.EBUSY, nil},
		"renamed meanwhile":  {mine, renaming{}, func(s *stage) { s.put("t", "x") }, unix.EBUSY, nil},
		"no shadow":          {mine, renaming{shadow: unix.EMFILE}, func(*stage) {}, unix.EMFILE, []string{"shadow"}},
		"no room":            {mine, renaming{full: unix.ENOSPC}, func(*stage) {}, unix.ENOSPC, []string{"shadow", "write", "discard"}},
		"not accepted":       {mine, renaming{refusal: refused}, func(*stage) {}, refused, []string{"shadow", "write", "judge", "discard"}},
		"not written":        {mine, renaming{inPlace: conflict}, func(*stage) {}, conflict, []string{"shadow", "write", "judge", "in place", "discard"}},
	} {
		s := newStage(t)
		g, r := s.merge(), &c.r
		r.s = s
		from, to := s.put("t", c.text), s.look("f")
		c.of(s)
		is, err := Into(r, g, from, to)
		var n *lostupdate.NotMerged
		if is != from.Stat || c.want == nil && !errors.As(err, &n) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		r.want(c.said...)
		if name != "renamed meanwhile" {
			s.holds("t", c.text)
		}
	}
}

// What is half written is finished, and what is not on disk yet is written all the same.
func TestIntoHalfWritten(t *testing.T) {
	for name, c := range map[string]struct {
		inPlace, recover error
		fails            bool
		said             []string
	}{
		"finished":     {commit.ErrRedoPending, nil, false, []string{"in place", "recover", "rewritten"}},
		"not finished": {commit.ErrRedoPending, unix.EIO, true, []string{"in place", "recover"}},
		"not durable":  {commit.ErrNotDurable, nil, false, []string{"in place", "rewritten"}},
	} {
		s := newStage(t)
		g, r := s.merge(), &renaming{s: s, inPlace: c.inPlace, recover: c.recover}
		_, err := Into(r, g, s.put("t", mine), s.look("f"))
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		r.want(append(append([]string{"shadow", "write", "judge"}, c.said...), "discard")...)
	}
}

// What another file has the name of by now is not written to.
func TestRewriteOfASwappedName(t *testing.T) {
	s := newStage(t)
	from, r := s.put("t", mine), &renaming{s: s}
	s.put("t", "SECRET")
	if _, err := Rewrite(r, from, []byte(both), "f"); err != unix.EBUSY {
		t.Errorf("it is rewritten: %v", err)
	}
	s.holds("t", "SECRET")
	r.want()
}

// What is opened is closed, whatever comes of it.
func TestNothingStaysOpen(t *testing.T) {
	s := newStage(t)
	from, r := s.put("t", mine), &renaming{s: s, shadow: unix.EMFILE}
	before := s.descriptors()
	for range 10 {
		if _, err := from.Read(); err != nil {
			t.Fatal(err)
		}
		if _, err := Rewrite(r, from, []byte(both), "f"); err != unix.EMFILE {
			t.Fatal(err)
		}
	}
	if now := s.descriptors(); now != before {
		t.Errorf("%d descriptors more", now-before)
	}
}

package disclosure

import (
	"os"
	"path/filepath"
	"testing"

	"latchfs/fs/reach"
	"latchfs/fs/rejected"
	"latchfs/fs/report"
	"latchfs/journal/history"
)

// change is what a test says of a version.
type change = func(*history.Version)

// sees reports whether a viewer sees the first version of a path.
func (s *stage) sees(v report.Viewer, path string) bool {
	return s.shows().lookOf(v).sees(&s.of(path)[0])
}

// Who sees a version of a file that is there.
func TestSees(t *testing.T) {
	s := newStage(t, map[string]os.FileMode{
		"open": 0o644, "group": 0o640, "own": 0o600, "closed/": 0o700, "closed/f": 0o644, "d/": 0o755,
	})
	s.must(os.Symlink("open", filepath.Join(s.dir, "link")))
	for what, c := range map[string]struct {
		path                  string
		is                    []change
		owner, mate, stranger bool
	}{
		"everybody's": {"open", nil, true, true, true},

		// The rights of the version count,
		"was its group's":             {"open", []change{rights(uid, gid, 0o640)}, true, true, false},
		"was its owner's":             {"open", []change{rights(uid, gid, 0o600)}, true, false, false},
		"was nobody's":                {"open", []change{rights(uid, gid, 0)}, false, false, false},
		"was another one's":           {"open", []change{rights(uid+7, gid+7, 0o600)}, false, false, true},
		"had an ACL":                  {"open", []change{withACL}, true, false, false},
		"is not kept":                 {"open", []change{notKept}, true, true, true},
		"is not kept and had an ACL":  {"open", []change{notKept, withACL}, true, false, false},
		"is not kept, was its own":    {"open", []change{notKept, rights(uid, gid, 0o600)}, true, false, false},
		"is a deletion of a file":     {"open", []change{event(history.Delete), by(uid+50, "")}, false, false, false},
		"has come otherwise":          {"open", []change{event(history.Found)}, true, true, true},
		"nobody knows who reached it": {"open", []change{unknownReach}, true, false, false},

		// and the gates that were above it.
		"behind the owner's gate":    {"open", []change{gates(history.Gate{UID: uid, GID: gid + 1, Mode: 0o100})}, true, false, false},
		"behind the group's gate":    {"open", []change{gates(history.Gate{UID: uid + 1, GID: gid, Mode: 0o010})}, true, true, false},
		"behind the others' gate":    {"open", []change{gates(history.Gate{UID: uid + 1, GID: gid, Mode: 0o001})}, true, false, true},
		"behind two gates":           {"open", []change{gates(history.Gate{UID: uid + 1, GID: gid, Mode: 0o010}, history.Gate{UID: uid + 1, GID: gid, Mode: 0o001})}, true, false, false},
		"behind one that is shut":    {"open", []change{gates(shut)}, true, false, false},
		"behind one for the readers": {"open", []change{gates(history.Gate{UID: uid + 1, GID: gid + 1, Mode: 0o666})}, true, false, false},

		// Who has removed or renamed a file knows that, where he can still go there.
		"is a deletion":            {"open", []change{event(history.Delete), by(uid+7, "")}, false, false, true},
		"is a rename":              {"open", []change{event(history.RenameAway), by(uid+8, "")}, false, true, false},
		"is a deletion, and gone":  {"gone", []change{event(history.Delete), by(uid+7, "")}, false, false, true},
		"is one in a closed one":   {"closed/f", []change{event(history.Delete), by(uid+7, "")}, false, false, false},
		"is one, gone with it all": {"none/f", []change{event(history.Delete), by(uid+7, "")}, false, false, true},

		// What the file is now counts as well,
		"is its group's now":                       {"group", nil, true, true, false},
		"is its owner's now":                       {"own", nil, true, false, false},
		"in a closed directory":                    {"closed/f", nil, true, false, false},
		"gone in a closed one":                     {"closed/gone", nil, true, false, false},
		"was another one's, in a closed directory": {"closed/f", []change{rights(uid+7, gid+7, 0o600)}, false, false, false},
		"was another one's, is its owner's now":    {"own", []change{rights(uid+7, gid+7, 0o600)}, false, false, false},

		// or what it was last. A directory or a link is no file.
		"gone":                    {"gone", nil, true, true, true},
		"a directory now":         {"d", nil, true, true, true},
		"a link now":              {"link", nil, true, true, true},
		"gone with its directory": {"none/f", nil, true, false, false},
		"of another one, gone with its directory": {"none/f", []change{rights(uid+7, gid+7, 0o600)}, false, false, true},
	} {
		s.versions = nil
		s.kept(c.path, c.is...)
		for _, w := range []struct {
			who  string
			v    report.Viewer
			want bool
		}{{"owner", owner, c.owner}, {"mate", mate, c.mate}, {"stranger", stranger, c.stranger}, {"admin", admin, true}} {
			if got := s.sees(w.v, c.path); got != w.want {
				t.Errorf("%s: its %s sees it: %v", what, w.who, got)
			}
		}
	}
}

// A user whose groups are not all known is in any, and denied what a group is denied.
func TestUnknownGroups(t *testing.T) {
	s := newStage(t, map[string]os.FileMode{"f": 0o644})
	v := stranger
	v.AllGroups = false
	for mode, want := range map[uint32]bool{0o644: true, 0o604: false, 0o640: false} {
		s.versions = nil
		s.kept("f", rights(uid, gid, mode))
		if got := s.sees(v, "f"); got != want {
			t.Errorf("mode %o: %v", mode, got)
		}
	}
	for mode, want := range map[uint32]bool{0o011: true, 0o001: false, 0o010: false} {
		s.versions = nil
		s.kept("f", gates(history.Gate{UID: uid, GID: gid, Mode: mode}))
		if got := s.sees(v, "f"); got != want {
			t.Errorf("gate %o: %v", mode, got)
		}
	}
}

// Others know that a file is gone if they may know of what it was, until there is another.
func TestSeesGone(t *testing.T) {
	current := func(v *history.Version) { v.Current = true }
	for what, c := range map[string]struct {
		was       change
		now       string
		is        []change
		mate, not bool // whether the mate, and the stranger, see it
	}{
		"everybody's":         {rights(uid, gid, 0o644), "none", []change{current}, true, true},
		"its group's":         {rights(uid, gid, 0o640), "none", []change{current}, true, false},
		"its owner's":         {rights(uid, gid, 0o600), "none", []change{current}, false, false},
		"there again":         {rights(uid, gid, 0o644), "f", []change{current}, false, false},
		"gone once more":      {rights(uid, gid, 0o644), "none", nil, false, false},
		"renamed":             {rights(uid, gid, 0o640), "none", []change{event(history.RenameAway), current}, true, false},
		"in a closed one":     {rights(uid, gid, 0o644), "closed/none", []change{current}, false, false},
		"gone with it":        {rights(uid, gid, 0o644), "gone/none", []change{current}, false, false},
		"was not kept before": {notKept, "none", []change{current}, false, false},
	} {
		s := newStage(t, map[string]os.FileMode{"f": 0o644, "closed/": 0o700})
		s.kept(c.now, c.was)
		s.kept(c.now, append([]change{event(history.Delete), by(uid+50, "")}, c.is...)...)
		gone := &s.of(c.now)[1]
		for v, want := range map[*report.Viewer]bool{&mate: c.mate, &stranger: c.not, &admin: true} {
			if got := s.shows().lookOf(*v).sees(gone); got != want {
				t.Errorf("%s: user %d sees that it is gone: %v", what, v.UID, got)
			}
		}
	}
}

// Where a file is gone, its last version decides about the earlier ones.
func TestLastVersionDecides(t *testing.T) {
	private := rights(uid, gid, 0o600)
	for what, c := range map[string]struct {
		later []func(*stage)
		want  bool
	}{
		"nothing later":      {nil, true},
		"deleted":            {[]func(*stage){later(event(history.Delete))}, true},
		"renamed":            {[]func(*stage){later(event(history.RenameAway))}, true},
		"private, deleted":   {[]func(*stage){later(private), later(event(history.Delete))}, false},
		"private and open":   {[]func(*stage){later(private), later(), later(event(history.Delete))}, true},
		"private, found":     {[]func(*stage){later(private, event(history.Found))}, false},
		"open, found":        {[]func(*stage){later(private), later(event(history.Found))}, true},
		"last is not kept":   {[]func(*stage){later(notKept), later(event(history.Delete))}, false},
		"last behind a gate": {[]func(*stage){later(gates(shut)), later(event(history.RenameAway))}, false},
		"deleted twice":      {[]func(*stage){later(private), later(event(history.Delete)), later(), later(event(history.Delete)), later(event(history.Delete))}, true},
	} {
		s := newStage(t, nil)
		s.kept("gone")
		for _, add := range c.later {
			add(s)
		}
		if got := s.sees(stranger, "gone"); got != c.want {
			t.Errorf("%s: a stranger sees it: %v", what, got)
		}
		if !s.sees(owner, "gone") {
			t.Errorf("%s: the owner does not see it", what)
		}
	}
}

func later(is ...change) func(*stage) {
	return func(s *stage) { s.kept("gone", is...) }
}

// The last version of a path is looked for once in a look.
func TestLastVersionIsLookedForOnce(t *testing.T) {
	s := newStage(t, nil)
	for range 5 {
		s.kept("gone")
		s.kept("gone too")
	}
	if list := s.shows().HistoryOf("gone", stranger); len(list) != 5 || s.asked != 1 {
		t.Errorf("%d versions, looked for %d times", len(list), s.asked)
	}
	n := 0
	for range s.shows().History(stranger) {
		n++
	}
	if n != 10 || s.asked != 3 {
		t.Errorf("%d versions, looked for %d times", n, s.asked)
	}
}

// Refused bytes are their owner's, and of those who could and can reach and read the file.
func TestRejected(t *testing.T) {
	s := newStage(t, map[string]os.FileMode{"open": 0o644, "group": 0o640, "closed/": 0o700, "closed/f": 0o644, "d/": 0o755})
	known := history.Reach{Known: true}
	for what, c := range map[string]struct {
		f              rejected.File
		mate, stranger bool
	}{
		"everybody's":             {rejected.File{Path: "open", Reach: known}, true, true},
		"its group's":             {rejected.File{Path: "group", Reach: known}, true, false},
		"had an ACL":              {rejected.File{Path: "open", Reach: known, ACL: true}, false, false},
		"of no known file":        {rejected.File{Reach: known}, false, false},
		"behind a gate":           {rejected.File{Path: "open", Reach: history.Reach{Known: true, Gates: []history.Gate{{UID: uid, GID: gid, Mode: 0o010}}}}, true, false},
		"nobody knows":            {rejected.File{Path: "open"}, false, false},
		"in a closed directory":   {rejected.File{Path: "closed/f", Reach: known}, false, false},
		"of a file that is gone":  {rejected.File{Path: "gone", Reach: known}, false, false},
		"gone with its directory": {rejected.File{Path: "none/f", Reach: known}, false, false},
		"a directory now":         {rejected.File{Path: "d", Reach: known}, false, false},
	} {
		c.f.UID, c.f.GID, c.f.Mode = uid, gid, 0o644
		for _, w := range []struct {
			who  string
			v    report.Viewer
			want bool
		}{{"owner", owner, true}, {"mate", mate, c.mate}, {"stranger", stranger, c.stranger}, {"admin", admin, true}} {
			look := reach.Root{FD: s.open("")}.LookOf(w.v)
			if got := Rejected(look)(&c.f); got != w.want {
				t.Errorf("%s: its %s sees it: %v", what, w.who, got)
			}
		}
	}
}

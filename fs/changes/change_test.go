package changes

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// A session publishes: the order in which the recorders hear, and what they are told.
func TestSave(t *testing.T) {
	s := newStage(t)
	ch := s.Change(writer, "open", nameOf("f"), 11)
	ch.Was, ch.Is, ch.NewInode = file(1, 3), file(2, 5), true
	ch.Step = s.step("f", ch.Was)
	s.Tell(ch)
	s.heard(
		"f was 1",
		"1 leaves f",
		"2 is new",
		"8 learns of f as 2 by open of vi[7] for 1000 as ann, in a session",
		"live names follow f",
		"claims of f end",
		"f may be a claim",
		`commit f in s1 of ann by 7 with 11 {"bytes":5,"noted":true,"operation":"open","program":"vi","uid":1000}`,
	)
	s.entered("f", "2 commit by open of vi[7] for 1000 as ann with 11 in s1: 2, 5 bytes, mode 640 of 3")
}

func TestSaveInATransactionThatIsNotDurable(t *testing.T) {
	s := newStage(t)
	ch := s.Change(writer, "open", nameOf("f"), 11)
	ch.Was, ch.Is, ch.InPlace = file(1, 3), file(1, 5), true
	ch.Txn, ch.Err = "t1", errors.New("the disk is full")
	s.Tell(ch)
	s.heard(
		"f was 1",
		"8 learns of f as 1 by open of vi[7] for 1000 as ann, in place, in a session",
		"live names follow f",
		"claims of f end",
		"f may be a claim",
		`commit f in s1 of ann by 7 with 11 {"bytes":5,"not_durable":"the disk is full","noted":true,"operation":"open","program":"vi","transaction":"t1","uid":1000}`,
	)
	s.entered("f", "none") // nothing was prepared
}

// The history hears of a commit before the others, and once.
func TestPublished(t *testing.T) {
	s := newStage(t)
	n := nameOf("d/f")
	ch := s.Change(writer, "open", n, 11)
	ch.Was = file(1, 3)
	ch.Step = s.step("d/f", ch.Was)
	*n.path = "e/f" // its directory is renamed
	ch.Published(file(2, 5), false)
	s.heard()
	s.entered("e/f", "1 commit by open of vi[7] for 1000 as ann with 11 in s1: 2, 5 bytes, mode 640 of 3")
	if ch.Path != "e/f" || ch.Is.Ino != 2 || ch.Kept {
		t.Errorf("the change is %+v", ch)
	}
	ch.Silent = true
	s.Tell(ch)
	s.heard(
		"e/f was 1", "1 leaves e/f", "8 learns of e/f as 2 by open of vi[7] for 1000 as ann, in a session",
		"live names follow e/f", "claims of e/f end", "e/f may be a claim",
	)
	s.entered("e/f", "1 commit by open of vi[7] for 1000 as ann with 11 in s1: 2, 5 bytes, mode 640 of 3")
}

// What a session publishes is a file, whatever is known of it.
func TestPublishedWithoutAMode(t *testing.T) {
	s := newStage(t)
	ch := s.Change(writer, "open", nameOf("f"), 11)
	ch.Step = s.step("f", nil)
	ch.Published(&unix.Stat_t{Ino: 2, Size: 5}, false)
	s.entered("f", "1 commit by open of vi[7] for 1000 as ann with 11 in s1: 2, 5 bytes, mode 640 of 3")
}

func TestPublishedIsKept(t *testing.T) {
	s := newStage(t)
	ch := s.Change(writer, "open", nameOf("f"), 0)
	ch.Published(file(2, 5), true)
	if !ch.Kept {
		t.Error("that the file before is kept is not noted")
	}
}

// A rename makes a change of each name, and each recorder hears of both before the next one.
func TestRename(t *testing.T) {
	s := newStage(t)
	to, from := s.Change(caller, "rename", nameOf("f"), 11), s.Change(caller, "rename", nameOf("f.tmp"), 11)
	to.Other, from.Other = from, to
	to.Was, to.Is, from.Was = file(1, 3), file(2, 5), file(2, 5)
	to.Step, from.Step = s.step("f", to.Was), s.step("f.tmp", from.Was)
	from.Version = true // which is not removed
	s.Tell(to, from)
	s.heard(
		"f was 1",
		"1 leaves f",
		"8 learns of f as 2 by rename of vi[7] for 1000 as ann",
		"f.tmp was 2",
		"2 leaves f.tmp",
		"8 learns of f.tmp as 0 by rename of vi[7] for 1000 as ann",
		"f.tmp holds nothing",
		"live names follow f, f.tmp",
		"claims of f end",
		"claims of f.tmp end",
		"f may be a claim",
		"f.tmp may be a claim",
		`commit f of ann by 7 with 11 {"bytes":5,"from":"f.tmp","operation":"rename","program":"vi","uid":1000}`,
	)
	s.entered("f", "2 commit by rename of vi[7] for 1000 as ann with 11 from f.tmp: 2, 5 bytes, mode 640 of 3")
	s.entered("f.tmp", "2 rename-away by rename of vi[7] for 1000 as ann with 11 to f")
	if is, was := s.h.Of("f")[1].Content, s.h.Of("f.tmp")[0].Content; is != was || is == "" {
		t.Errorf("the file is the content %q under its new name, and was %q", is, was)
	}
}

// A link is not removed either where it is renamed.
func TestRenameOfALink(t *testing.T) {
	s := newStage(t)
	s.c.Known = nil
	from := s.Change(caller, "rename", nameOf("l"), 11)
	from.Other, from.Was = s.Change(caller, "rename", nameOf("m"), 11), &unix.Stat_t{Mode: unix.S_IFLNK | 0o777}
	s.Tell(from)
	s.heard("live names follow l", "claims of l end", "l may be a claim")
}

// The file that goes has got no version: it takes no content along.
func TestRenameOfWhatHasNoHistory(t *testing.T) {
	s := newStage(t)
	to, from := s.Change(caller, "rename", nameOf("f"), 11), s.Change(caller, "rename", nameOf("f.tmp"), 11)
	to.Other, from.Other = from, to
	to.Is, from.Was = file(2, 5), file(2, 5)
	to.Step = s.step("f", nil)
	to.Enter()
	s.entered("f", "1 commit by rename of vi[7] for 1000 as ann with 11 from f.tmp: 2, 5 bytes, mode 640 of 3")
	from.Enter()
	s.entered("f.tmp", "none")
}

// What a session had created and renamed nobody has seen.
func TestRenameOfWhatNobodyHasSeen(t *testing.T) {
	s := newStage(t)
	from := s.Change(caller, "rename", nameOf("f.tmp"), 11)
	from.Other = s.Change(caller, "rename", nameOf("f"), 11)
	from.Silent = true
	s.Tell(from)
	s.heard("live names follow f.tmp", "claims of f.tmp end", "f.tmp may be a claim")
}

func TestRenameOfLiveFiles(t *testing.T) {
	s := newStage(t)
	s.live, s.ignored = true, true
	to := s.Change(caller, "rename", nameOf("f"), 11)
	to.Other, to.Is = s.Change(caller, "rename", nameOf("g"), 11), file(2, 5)
	s.Tell(to)
	s.heard("live names follow f", "claims of f end", "f may be a claim")
}

func TestRemoval(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(ch *Change)
		want []string // of the audit trail
	}{
		"a version": {
			func(ch *Change) { ch.Version = true },
			[]string{`delete f of ann by 7 with 11 {"program":"vi","uid":1000}`},
		},
		"in a transaction": {
			func(ch *Change) { ch.Version, ch.Txn = true, "t1" },
			[]string{`delete f of ann by 7 with 11 {"program":"vi","transaction":"t1","uid":1000}`},
		},
		"a live file":            {func(ch *Change) {}, nil},
		"told in another manner": {func(ch *Change) { ch.Version, ch.Silent = true, true }, nil},
		"a link": {
			func(ch *Change) { ch.Was.Mode, ch.Target, ch.Txn = unix.S_IFLNK|0o777, "g", "t1" },
			[]string{`delete_link f of ann by 7 {"file_gid":0,"file_uid":0,"program":"vi","target":"g","transaction":"t1","uid":1000}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			ch := s.Change(caller, "unlink", nameOf("f"), 11)
			ch.Was = file(1, 3)
			c.of(ch)
			s.Tell(ch)
			s.heard(append([]string{
				"f was 1", "1 leaves f", "8 learns of f as 0 by unlink of vi[7] for 1000 as ann", "f holds nothing",
				"live names follow f", "claims of f end", "f may be a claim",
			}, c.want...)...)
		})
	}
}

func TestRemovalInTheHistory(t *testing.T) {
	s := newStage(t)
	ch := s.Change(caller, "unlink", nameOf("f"), 11)
	ch.Was = file(1, 3)
	ch.Step = s.step("f", ch.Was)
	ch.Enter()
	ch.Enter()
	s.entered("f", "2 delete by unlink of vi[7] for 1000 as ann with 11")
}

// A link in the place of a file is no version.
func TestFileReplacedByALink(t *testing.T) {
	s := newStage(t)
	to := s.Change(caller, "rename", nameOf("f"), 11)
	to.Other = s.Change(caller, "rename", nameOf("l"), 11)
	to.Was, to.Is = file(1, 3), &unix.Stat_t{Mode: unix.S_IFLNK, Ino: 2}
	to.Step = s.step("f", to.Was)
	s.Tell(to)
	s.entered("f", "2 delete by rename of vi[7] for 1000 as ann with 11")
	if last := s.said[len(s.said)-1]; last != "f may be a claim" {
		t.Errorf("the audit trail hears %q", last)
	}
}

// A name that held nothing has nothing to catch up with, and none of whose removal to tell.
func TestCreationAndLink(t *testing.T) {
	s := newStage(t)
	ch := s.Change(caller, "create", nameOf("f"), 0)
	ch.Is, ch.NewInode = file(2, 0), true
	s.Tell(ch)
	s.heard("2 is new", "8 learns of f as 2 by create of vi[7] for 1000 as ann", "live names follow f", "claims of f end", "f may be a claim")
	gone := s.Change(caller, "unlink", nameOf("g"), 0)
	s.Tell(gone)
	s.heard("8 learns of g as 0 by unlink of vi[7] for 1000 as ann", "g holds nothing", "live names follow g", "claims of g end", "g may be a claim")
}

func TestAppended(t *testing.T) {
	for _, c := range []struct {
		was  *unix.Stat_t
		want []string
	}{
		{file(1, 3), []string{"f was 1", "8 learns of f as 1 by append of vi[7] for 1000 as ann, in place, added to 3 bytes"}},
		{nil, []string{"8 learns of f as 1 by append of vi[7] for 1000 as ann, in place"}},
	} {
		s := newStage(t)
		ch := s.Change(caller, "append", nameOf("f"), 0)
		ch.Was, ch.Is, ch.InPlace, ch.Adds, ch.Silent = c.was, file(1, 5), true, true, true
		s.Tell(ch)
		s.heard(append(c.want, "live names follow f", "claims of f end", "f may be a claim")...)
	}
}

// Whoever has a file open to append may cut it, and means the version that it held then: it
// is remembered which that was, before what has replaced it is.
func TestReplacedUnderAnAppender(t *testing.T) {
	const made, shell = "8 learns of f as 1 by open of vi[7] for 1000 as ann", "0 learns of f as 2 by open of vi[7] for 1000 as ann"
	for name, c := range map[string]struct {
		by   Maker
		of   func(s *stage, ch *Change)
		want []string
	}{
		"in place": {caller, nil, []string{"f is followed from 1 on", made + ", in place"}},
		"by a shell, which learns nothing": {
			maker{nobody: true},
			func(_ *stage, ch *Change) { ch.InPlace, ch.Is = false, file(2, 5) },
			[]string{"f is followed from 1 on", shell},
		},
		"by a writer that learns it": {
			caller, func(_ *stage, ch *Change) { ch.InPlace = false },
			[]string{made},
		},
		"by lines": {caller, func(_ *stage, ch *Change) { ch.Adds = true }, []string{made + ", in place, added to 3 bytes"}},
		"nothing":  {caller, func(_ *stage, ch *Change) { ch.Was = nil }, []string{made + ", in place"}},
		"that has closed it": {
			caller, func(s *stage, _ *Change) { s.appends = false },
			[]string{made + ", in place"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.appends = true
			ch := s.Change(c.by, "open", nameOf("f"), 11)
			ch.Was, ch.Is, ch.InPlace = file(1, 3), file(1, 5), true
			if c.of != nil {
				c.of(s, ch)
			}
			s.held++
			ch.knowVersion(&policy.Settings{})
			s.held--
			s.heard(c.want...)
		})
	}
}

// A cut through a descriptor is a version of its own, of the same file.
func TestCut(t *testing.T) {
	s := newStage(t)
	s.c.Known = nil
	ch := s.Change(caller, "truncate", nameOf("f"), 11)
	ch.Was, ch.Is, ch.InPlace = file(1, 5), file(1, 2), true
	ch.Step = s.step("f", ch.Was)
	s.live = true // which is of no matter where the history has the version
	s.Tell(ch)
	s.heard("live names follow f", "claims of f end", "f may be a claim",
		`commit f of ann by 7 with 11 {"bytes":2,"operation":"truncate","program":"vi","uid":1000}`)
	s.entered("f", "2 commit by truncate of vi[7] for 1000 as ann with 11: 1, 2 bytes, mode 640 of 3")
}

// A target is a file with which something can be merged.
type target struct{}

func (target) KeepsInode() bool                             { return false }
func (target) InTransaction() bool                          { return false }
func (target) Stamp() knowledge.Stamp                       { return knowledge.Stamp{} }
func (target) Base(string, *knowledge.Basis) ([]byte, bool) { return []byte("old"), true }
func (target) Beginning(int64) (beginning []byte, ok bool)  { return nil, false }

func merged() *lostupdate.Merge {
	l := &lostupdate.Loss{
		Maker:  lostupdate.Maker{By: knowledge.Author{UID: 1000}},
		Change: lostupdate.Change{Set: &policy.Settings{LostUpdate: policy.Merge}},
	}
	return l.Merge(target{})
}

func TestMerged(t *testing.T) {
	s := newStage(t)
	s.written = &lostupdate.Written{Number: 4, Content: []byte("mine")}
	ch := s.Change(writer, "open", nameOf("f"), 11)
	ch.Merge, ch.Is, ch.Silent = merged(), file(2, 5), true
	ch.Merge.Loss.Path = "f as it was"
	if ch.Merge.Base() == nil {
		t.Fatal("there is no merge")
	}
	ch.knowHeld(s)
	s.heard(
		"8 learns of f as 2 merged by open of vi[7] for 1000 as ann, number 99",
		`f had "mine" as version 4`,
		`merge f as it was in s1 of ann by 7 with 11 {"kind":"text","operation":"open","program":"vi","uid":1000}`,
	)
	if ch.Merge.Base() != nil {
		t.Error("what the version held that the writer knew is kept in memory")
	}
	s.written = nil
	ch = s.Change(caller, "rename", nameOf("f"), 11)
	ch.Other, ch.Merge, ch.Is = s.Change(caller, "rename", nameOf("g"), 11), merged(), file(2, 5)
	ch.knowHeld(s)
	s.heard(
		"8 learns of f as 2 merged by rename of vi[7] for 1000 as ann, number 99",
		`merge  of ann by 7 {"from":"g","kind":"text","operation":"rename","program":"vi","uid":1000}`,
	)
}

// knowHeld is Know with the paths held.
func (ch *Change) knowHeld(s *stage) {
	s.held++
	ch.Know()
	s.held--
}

func TestNothingIsKnown(t *testing.T) {
	s := newStage(t)
	s.c.Known = nil
	ch := s.Change(caller, "unlink", nameOf("f"), 11)
	ch.Was = file(1, 3)
	s.Tell(ch)
	s.heard("live names follow f", "claims of f end", "f may be a claim")
	s.c.Known, s.ignored = s, true
	s.Tell(ch)
	s.heard("f was 1", "1 leaves f", "f holds nothing", "live names follow f", "claims of f end", "f may be a claim")
}

// Whoever tells of several changes tells of them under the paths that they have then.
func TestPathsAreThoseOfNow(t *testing.T) {
	s := newStage(t)
	s.c.Known = nil
	a, b := nameOf("d/a"), nameOf("d/b")
	first, second := s.Change(caller, "rename", a, 11), s.Change(caller, "rename", b, 11)
	first.Other, second.Other, first.Is = second, first, file(1, 3)
	if first.Path != "d/a" {
		t.Errorf("the path is %q", first.Path)
	}
	*a.path, *b.path = "e/a", "e/b"
	s.Tell(first, second)
	s.heard("live names follow e/a, e/b", "claims of e/a end", "claims of e/b end", "e/a may be a claim", "e/b may be a claim",
		`commit e/a of ann by 7 with 11 {"bytes":3,"from":"e/b","operation":"rename","program":"vi","uid":1000}`)
}

package lostupdate

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // the reasons tell the time of day
	os.Exit(m.Run())
}

// A stage has a Judge, with files that are nothing but stamps, in virtual time.
type stage struct {
	*Judge
	t        *testing.T
	set      policy.Settings
	files    map[string]File
	ino      uint64
	families map[int32]proc.Family
	lineages map[int32][]lockmgr.Ancestor
	dead     map[int32]bool
	history  map[knowledge.Stamp]uint64 // nil: there is none
	flocks   []*knowledge.Sight         // looks that were none
	said     []string                   // what the engine was told
}

// onStage runs a test with pid 10 and 20, strangers to each other, and pid 11, a child
// of 10.
func onStage(t *testing.T, test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{
			t: t, set: policy.Default().Defaults(), files: map[string]File{}, dead: map[int32]bool{},
			families: map[int32]proc.Family{11: {Relatives: []lockmgr.Owner{owner(10)}}},
			lineages: map[int32][]lockmgr.Ancestor{11: {{Owner: owner(10)}}},
		}
		s.Judge = New(Config{Known: knowledge.New(time.Hour), Procs: s, Engine: s, Mountpoint: "/my m"})
		test(s)
	})
}

func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid)} }

func (s *stage) Family(o lockmgr.Owner) proc.Family   { return s.families[o.PID] }
func (s *stage) Lineage(pid int32) []lockmgr.Ancestor { return s.lineages[pid] }
func (s *stage) Alive(o lockmgr.Owner) bool           { return !s.dead[o.PID] }
func (s *stage) Program(pid int32) string             { return fmt.Sprintf("prog%d", pid) }
func (s *stage) KeepsHistory(*policy.Settings) bool   { return s.history != nil }
func (s *stage) SeesEverything(uid uint32) bool       { return uid == 0 }
func (s *stage) Obeyed(l *Loss, why string)           { s.said = append(s.said, "obeyed: "+why) }
func (s *stage) Conflict(l *Loss)                     { s.said = append(s.said, "conflict") }
func (s *stage) Explain(l *Loss)                      { s.said = append(s.said, "explained") }
func (s *stage) Number(_ string, st knowledge.Stamp) (uint64, bool) {
	return s.history[st], s.history != nil
}

func (s *stage) OnlyLocked(_ string, b *knowledge.Basis) *knowledge.Sight {
	i := slices.IndexFunc(s.flocks, func(sight *knowledge.Sight) bool { return sight.Gave(b) })
	if i < 0 {
		return nil
	}
	sight := s.flocks[i]
	s.flocks = slices.Delete(s.flocks, i, i+1)
	return sight
}

// who is a process with those who learn what it learns.
func (s *stage) who(pid int32) knowledge.Who {
	who, _ := s.LearnersOf(owner(pid))
	return who
}

func author(pid int32, op string) knowledge.Author {
	return knowledge.Author{PID: pid, Program: fmt.Sprintf("prog%d", pid), UID: uint32(1000 + pid), Operation: op, Time: time.Now()}
}

// read lets a process read what a path holds.
func (s *stage) read(pid int32, path string) *knowledge.Sight {
	f := s.files[path]
	return s.Saw(&f, s.who(pid), func() { s.Known.Found(time.Now(), f.key(), f.Stamp) })
}

// write lets a process put a new file in the place of what a path holds.
func (s *stage) write(pid int32, path string) {
	s.ino++
	f := File{Path: path, Stamp: knowledge.Stamp{Ino: s.ino, Size: 10, Mtime: time.Now().UnixNano()}}
	s.put(pid, f, &Made{Session: true})
}

// put lets a process make what a path holds.
func (s *stage) put(pid int32, f File, m *Made) {
	m.Path, m.Is, m.Was = f.Path, f.Stamp, s.files[f.Path].Stamp
	s.files[f.Path] = f
	s.Made(m, s.who(pid), author(pid, "open"))
}

// add lets a process append to what a path holds.
func (s *stage) add(pid int32, path string) {
	f := s.files[path]
	f.Stamp.Size += 5
	f.Stamp.Mtime = time.Now().UnixNano()
	m := Made{Path: path, Is: f.Stamp, Was: s.files[path].Stamp, Adds: true, InPlace: true}
	s.files[path] = f
	s.Made(&m, s.who(pid), author(pid, Appended))
}

// change is one that a process is about to make of a path.
func (s *stage) change(pid int32, path string, writers ...lockmgr.Owner) Change {
	f := s.files[path]
	f.Path = path
	return Change{File: f, Op: "open", Set: &s.set, Chain: Chain(s.who(pid), writers), Writers: writers, Who: s.who(pid)}
}

func (s *stage) loss(pid int32, path string, writers ...lockmgr.Owner) *Loss {
	return s.Loss(s.change(pid, path, writers...), s.maker(pid))
}

func (s *stage) maker(pid int32) func() Maker {
	return func() Maker { return Maker{Owner: owner(pid), Self: owner(pid), By: author(pid, "open")} }
}

// overtaken is a change by 10 of what 20 has made since.
func (s *stage) overtaken() *Loss {
	s.t.Helper()
	s.write(20, "f")
	s.read(10, "f")
	s.later(time.Second)
	s.write(20, "f")
	s.later(time.Second)
	l := s.loss(10, "f")
	if l == nil {
		s.t.Fatal("nothing is lost")
	}
	return l
}

func (s *stage) later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// want compares what the engine was told.
func (s *stage) want(said ...string) {
	s.t.Helper()
	if !slices.Equal(s.said, said) {
		s.t.Errorf("the engine was told %q, want %q", s.said, said)
	}
	s.said = nil
}

func (s *stage) wantLoss(lost bool, pid int32, path string, writers ...lockmgr.Owner) {
	s.t.Helper()
	if l := s.loss(pid, path, writers...); (l != nil) != lost {
		s.t.Errorf("a change of %s by %d loses something: %v, want %v", path, pid, l != nil, lost)
	}
}

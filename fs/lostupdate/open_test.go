package lostupdate

import (
	"testing"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// Of an open for reading and writing the first operation decides.
func TestOpen(t *testing.T) {
	open := func(s *stage) (*Open, *Change) {
		l := s.overtaken()
		now := s.change(10, "f")
		return &Open{Loss: l, Chain: now.Chain}, &now
	}
	t.Run("a change", func(t *testing.T) {
		onStage(t, func(s *stage) {
			o, now := open(s)
			if o.IsRefused() || o.Change(now) || !o.IsRefused() {
				t.Error("a change before any read happens")
			}
			s.want("conflict", "explained")
			s.read(10, "f")
			s.later(2 * time.Second)
			if o.Change(now) {
				t.Error("a change after a refused one happens")
			}
			s.want()
		})
	})
	t.Run("a read elsewhere", func(t *testing.T) {
		onStage(t, func(s *stage) {
			o, now := open(s)
			if !o.IsStale(now) {
				t.Error("it is current at once")
			}
			s.read(10, "f")
			if o.IsStale(now) || !o.Change(now) || o.IsRefused() {
				t.Error("a change after a read elsewhere is refused")
			}
			if !o.Loss.Basis.Stale {
				t.Error("the loss does not tell what it was any more")
			}
			if !o.IsStale(nil) {
				t.Error("it is current where nobody can tell")
			}
			s.want()
		})
	})
	t.Run("nobody can tell", func(t *testing.T) {
		onStage(t, func(s *stage) {
			o, _ := open(s)
			s.read(10, "f")
			if o.Change(nil) {
				t.Error("a change of what nobody can tell happens")
			}
			s.want("conflict", "explained")
		})
	})
	t.Run("one who insists", func(t *testing.T) {
		onStage(t, func(s *stage) {
			o, now := open(s)
			s.loss(10, "f").Answer()
			s.later(2 * time.Second)
			s.said = nil
			if !o.Change(now) { // by what is known now, and not at the open
				t.Error("a process that insists is refused")
			}
			s.want("obeyed: it was refused before, and tried again")
		})
	})
	t.Run("a newer version", func(t *testing.T) {
		onStage(t, func(s *stage) {
			o, _ := open(s)
			s.write(30, "f")
			now := s.change(10, "f")
			if !o.IsStale(&now) || o.Loss.Basis.Newer.Author.PID != 30 {
				t.Errorf("the loss tells of %d", o.Loss.Basis.Newer.Author.PID)
			}
		})
	})
}

// A process that only appends to a file, and cuts it, means what was there when it last used its
// descriptor. What somebody on its chain has read since counts before that.
func TestUse(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "f")
		s.later(time.Second)
		use := &knowledge.Use{At: time.Now(), By: []lockmgr.Owner{owner(10)}}
		cut := func() *Loss {
			ch := s.change(10, "f")
			ch.Use = use
			return s.Loss(ch, s.maker(10))
		}
		s.later(time.Second)
		s.add(20, "f")
		if l := cut(); l != nil {
			t.Errorf("lines of others are lost: %s", l.Reason())
		}
		s.write(20, "f")
		s.wantLoss(false, 10, "f") // which it replaces unread
		l := cut()
		if l == nil || !l.Basis.Used || l.Answer() {
			t.Fatalf("what another process has saved is cut: %+v", l)
		}
		s.want("conflict", "explained")
		s.later(2 * time.Second)
		if l := cut(); l == nil || !l.Answer() {
			t.Errorf("the process does not insist: %+v", l)
		}
		s.want("obeyed: it was refused before, and tried again")
		s.write(20, "f")
		if cut() == nil {
			t.Error("the next version is lost")
		}
		s.read(11, "f")
		if l := cut(); l != nil {
			t.Errorf("its child has read the version: %s", l.Reason())
		}
	})
}

// What a path holds is followed from then on, although nobody has read it.
func TestFollow(t *testing.T) {
	onStage(t, func(s *stage) {
		f := File{Path: "f", Stamp: knowledge.Stamp{Ino: 9}}
		s.Follow("f", f.Stamp)
		if !s.IsFollowed(&f) {
			t.Error("it is not")
		}
		s.wantLoss(false, 10, "f")
	})
}

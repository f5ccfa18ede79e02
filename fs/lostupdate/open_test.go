package lostupdate

import (
	"testing"
	"time"
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

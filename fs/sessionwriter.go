package fs

import (
	"time"

	"latchfs/journal/audit"
)

// This file says who writes a session, for the audit trail and for people.

// record writes an event about the session to the audit trail.
func (s *session) record(event string, fill func(*audit.Event)) {
	id := s.who.Load()
	ev := audit.Event{
		Time: time.Now(), Event: event, Path: s.path(), Session: s.id,
		PID: id.owner.PID, Token: s.lock.Token(),
		Detail: map[string]any{"program": s.program(), "uid": s.uid},
	}
	if lb, ok := s.lock.Request().Label.(*label); ok {
		ev.Actor = s.f.actorOf(lb)
	}
	fill(&ev)
	s.f.event(ev)
}

// program is the name of the program that writes the session.
func (s *session) program() string {
	if name := s.named.Load(); name != nil {
		return *name
	}
	return ""
}

func (s *session) nameWriter(program string) { s.named.Store(&program) }

// renameWriter gives the session the name of the program that the writer runs now: a
// shell opens the file of a redirection, and becomes the program that writes it.
func (s *session) renameWriter() {
	o := s.who.Load().owner
	if o.PID <= 0 {
		return
	}
	if by := s.by; by != nil && by.Owner == o && by.Program != "" {
		s.nameWriter(by.Program)
		return
	}
	if th, err := s.f.proc.Thread(uint32(o.PID)); err != nil || th.Owner != o {
		return
	}
	if name := s.f.proc.Program(o.PID); name != "" {
		s.nameWriter(name)
	}
}

func (s *session) operation() string {
	if lb, ok := s.lock.Request().Label.(*label); ok {
		return lb.op
	}
	return opOpen
}

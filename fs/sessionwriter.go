package fs

// This file says who writes a session, for the audit trail and for people.

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
func (cm *commits) renameWriter(s *session) {
	o := s.who.Load().Owner()
	if o.PID <= 0 {
		return
	}
	if by := s.by; by != nil && by.Owner == o && by.Program != "" {
		s.nameWriter(by.Program)
		return
	}
	if th, err := cm.callers.proc.Process(o.PID); err != nil || th.Owner != o {
		return
	}
	if name := cm.callers.proc.Program(o.PID); name != "" {
		s.nameWriter(name)
	}
}

func (s *session) operation() string {
	if lb, ok := s.lock.Request().Label.(*label); ok {
		return lb.op
	}
	return opOpen
}

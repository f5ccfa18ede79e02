package fs

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
)

// judging decides whether content may have a name: it asks the validators, and prepares the
// merge with what others have written.
type judging struct {
	judge *judge.Judge // asks validators about content; its checks end with the sessions

	*ground
	locks    *locks
	losses   *losses
	recorder *recorder
}

// openJudge makes what judges content. The policy is there.
func (f *FS) openJudge() {
	f.judging.judge = judge.New(judge.Config{Settings: f.rules.settings, Helper: f.disk.opts.Helper})
}

// findCommandUsers looks up the users as whom the policy has commands run. An
// ordinary user's mount runs them as that user.
func (jd *judging) findCommandUsers() error {
	if !jd.disk.privileged {
		jd.judge.RunAs(judge.Ourselves())
		return nil
	}
	users, err := judge.FindUsers(jd.disk.opts.Policy.CommandUsers())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadOption, err)
	}
	jd.judge.RunAs(users)
	return nil
}

// refuseContent records that an operation of c was refused because of content.
func (jd *judging) refuseContent(c *caller, x *judge.Refusal) unix.Errno {
	e := judge.Errno(x.Err)
	if e == unix.EINTR {
		return e
	}
	detail := map[string]any{"program": c.Program(), "uid": c.UID()}
	x.Note(detail)
	jd.reports.explain(refusals.Refusal{
		Path: x.Path, Op: x.Op, Errno: e, Reason: judge.Reason(x.Err), Verdict: judge.VerdictOf(x.Err), Hint: x.Hint(),
		Owner: c.Owner(), UID: c.UID(), Lineage: c.Ancestors(),
	})
	jd.reports.event(audit.Event{
		Time: time.Now(), Event: "refusal", Path: x.Path, PID: c.Owner().PID, Actor: c.Actor(), Detail: detail,
	})
	return e
}

// sessionDraft is what a session has written, as package judge needs it. Its mutex is held.
type sessionDraft struct {
	*commits
	s *session
}

var _ judge.Draft = sessionDraft{}

// Paths implements judge.Draft: a session that writes in place changes all names of the file.
func (d sessionDraft) Paths() []string {
	own := d.s.path()
	paths := []string{own}
	if d.s.inPlace {
		for _, path := range d.names.otherPaths(d.s.base) {
			if path != own {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// CheckBase implements judge.Draft.
func (d sessionDraft) CheckBase() error {
	dir, name := d.s.where()
	return d.s.shadow.CheckBase(d.publishOptions(d.s, dir, name))
}

// FD implements judge.Draft.
func (d sessionDraft) FD() int { return d.s.shadow.FD() }

// Writer implements judge.Draft.
func (d sessionDraft) Writer() uint32 { return d.s.uid }

// mayCut decides whether the session may be truncated through a descriptor: the
// check that an open with O_TRUNC has behind it.
func (jd *judging) mayCut(s *session, size int64) unix.Errno {
	s.mu.Lock()
	s.writing.Cut()
	x := jd.losses.unseenBase(s)
	if x != nil && size == 0 && !s.writing.Merges() {
		s.writing.MergeWith(jd.mergesCut(s, x))
	}
	merges := s.writing.Merges()
	s.mu.Unlock()
	if x == nil || merges {
		return 0
	}
	return errnoFor(x.Answer())
}

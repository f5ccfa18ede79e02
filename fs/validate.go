package fs

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
)

// openJudge makes what judges content. The policy is there.
func (f *FS) openJudge() {
	f.judge = judge.New(judge.Config{Settings: f.settings, Helper: f.opts.Helper})
}

// findCommandUsers looks up the users as whom the policy has commands run. An
// ordinary user's mount runs them as that user.
func (f *FS) findCommandUsers() error {
	if !f.privileged {
		f.judge.RunAs(judge.Ourselves())
		return nil
	}
	users, err := judge.FindUsers(f.opts.Policy.CommandUsers())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadOption, err)
	}
	f.judge.RunAs(users)
	return nil
}

// refuseContent records that an operation of c was refused because of content.
func (f *FS) refuseContent(c *caller, x *judge.Refusal) unix.Errno {
	e := judge.Errno(x.Err)
	if e == unix.EINTR {
		return e
	}
	detail := map[string]any{"program": c.program(), "uid": c.uid}
	x.Note(detail)
	f.explain(refusals.Refusal{
		Path: x.Path, Op: x.Op, Errno: e, Reason: judge.Reason(x.Err), Verdict: judge.VerdictOf(x.Err), Hint: x.Hint(),
		Owner: c.owner, UID: c.uid, Lineage: c.ancestors(),
	})
	f.event(audit.Event{
		Time: time.Now(), Event: "refusal", Path: x.Path, PID: c.owner.PID, Actor: f.actorOf(&label{c: c}), Detail: detail,
	})
	return e
}

// sessionDraft is what a session has written, as package judge needs it. Its mutex is held.
type sessionDraft struct{ s *session }

var _ judge.Draft = sessionDraft{}

// Paths implements judge.Draft: a session that writes in place changes all names of the file.
func (d sessionDraft) Paths() []string {
	own := d.s.path()
	paths := []string{own}
	if d.s.inPlace {
		for _, path := range d.s.f.otherPaths(d.s.base) {
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
	return d.s.shadow.CheckBase(d.s.publishOptions(dir, name))
}

// FD implements judge.Draft.
func (d sessionDraft) FD() int { return d.s.shadow.FD() }

// Writer implements judge.Draft.
func (d sessionDraft) Writer() uint32 { return d.s.uid }

// judgeLocked is the validators' place among the checks of a commit: the base is
// current, and what they accept is published next.
func (s *session) judgeLocked() unix.Errno {
	asked, err := s.judged.Judge(s.f.judge, sessionDraft{s})
	var conflict *commit.ConflictError
	switch {
	case errors.As(err, &conflict):
		return s.publishFailed(err)
	case err != nil:
		return s.rejectFor(judge.Errno(err), judge.Reason(err), err)
	case asked && !s.keepsLock(): // it may have taken long
		return s.rejectLocked(unix.ESTALE, s.theft())
	}
	return 0
}

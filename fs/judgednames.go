package fs

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/fs/lockwait"
	"latchfs/journal/commit"
)

// Content as package judge needs it: under a name, in a session's shadow, or behind a
// descriptor, for which O_PATH will do.
type (
	namedContent struct {
		nodes *nodes
		dir   *inode
		name  string
	}
	sessionContent struct{ s *session }
	openContent    struct {
		handles *handles
		fd      int
	}
)

// Open implements judge.Content.
func (k namedContent) Open() (int, error) { return commit.OpenUnnoticed(k.nodes.fdOf(k.dir), k.name) }

// IsPending implements judge.Content.
func (k namedContent) IsPending() bool { return false }

// Name implements judge.Content.
func (k namedContent) Name() string { return k.nodes.path(k.dir, k.name) }

// Open implements judge.Content: a descriptor of what the session has written so far.
func (k sessionContent) Open() (int, error) {
	s := k.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() {
		return -1, judge.ErrEnded
	}
	if e := s.fillLocked(); e != 0 {
		return -1, e
	}
	return unix.FcntlInt(uintptr(s.shadow.FD()), unix.F_DUPFD_CLOEXEC, 0)
}

// IsPending implements judge.Content.
func (k sessionContent) IsPending() bool { return k.s.working.Load() != nil }

// Name implements judge.Content.
func (k sessionContent) Name() string { return k.s.path() }

// Open implements judge.Content.
func (k openContent) Open() (int, error) { return k.handles.reopenUnnoticed(k.fd) }

// IsPending implements judge.Content.
func (k openContent) IsPending() bool { return false }

// Name implements judge.Content.
func (k openContent) Name() string { return "" }

// admitContent judges the candidates of an operation on names, and says why one is
// not accepted. What was accepted under the same lock is noted in its label.
func (jd *judging) admitContent(ctx context.Context, c *caller, op string, lb *label, list []judge.Candidate) unix.Errno {
	k, err := jd.judge.Admit(ctx, &lb.passed, c.UID(), list)
	switch {
	case err == nil:
		return 0
	case err == judge.ErrEnded:
		return errEnded
	}
	return jd.refuseContent(c, &judge.Refusal{Op: op, Path: k.Path, From: k.Content.Name(), Err: err})
}

// checkContext ends with the mount, and with a caller who is killed or otherwise
// called away. A stop does not end it: the caller stops when its rename is done.
func (jd *judging) checkContext(c *caller, cancel <-chan struct{}) (context.Context, context.CancelFunc) {
	return jd.judge.Until(cancel, lockwait.SignalPoll, func() bool {
		return jd.callers.proc.Pending(c.TID()).Ends(false, false)
	})
}

// arrival is a renaming as what gives content a name: whether that may be is asked of
// validators, and of the claims that lock files make.
type arrival struct{ *renaming }

// toJudge lists the candidates whenever it is called; nil: there are none.
func (r arrival) toJudge() func() []judge.Candidate {
	if len(r.candidates()) == 0 {
		return nil
	}
	return func() []judge.Candidate {
		_ = r.look() // what is not there is no candidate
		return r.candidates()
	}
}

// candidates is the content that the renaming gives names, as the names were when
// they were looked at.
func (r arrival) candidates() []judge.Candidate {
	var list []judge.Candidate
	add := func(from, to place, st *unix.Stat_t) {
		path := r.nodes.path(to.dir, to.name)
		k := judge.Candidate{Path: path, Rules: r.judging.judge.Rules(path)}
		if st == nil {
			if s := r.ownSession(from); s != nil {
				k.Content = sessionContent{s}
			}
		} else if st.Mode&unix.S_IFMT == unix.S_IFREG {
			k.Content = namedContent{r.nodes, from.dir, from.name}
		}
		if k.Rules != nil && k.Content != nil {
			list = append(list, k)
		}
	}
	add(r.from, r.to, r.fromSt)
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		add(r.to, r.from, r.toSt)
	}
	return list
}

// judge is admitContent for what the renaming gives names.
func (r arrival) judge(list []judge.Candidate) unix.Errno {
	if len(list) == 0 {
		return 0
	}
	ctx, stop := r.judging.checkContext(r.c, r.cancel)
	defer stop()
	return r.judging.admitContent(ctx, r.c, opRename, r.lb, list)
}

// judgeUnnamed judges a new file that is to appear under its own name before it is
// closed.
func (r arrival) judgeUnnamed(s *session, p place) unix.Errno {
	path := r.nodes.path(p.dir, p.name)
	v := r.judging.judge.Rules(path)
	if v == nil {
		return 0
	}
	return r.judge([]judge.Candidate{{Content: sessionContent{s}, Path: path, Rules: v}})
}

// judgeLink judges what link(2) gives a name: n, which may be an unnamed file. A
// file that its owner has open for writing would be written on without anybody to
// judge it.
func (jd *judging) judgeLink(c *caller, cancel <-chan struct{}, lb *label, n *inode, path string) unix.Errno {
	jd.nodes.mu.Lock()
	s := n.sess
	jd.nodes.mu.Unlock()
	if s != nil && (jd.judge.Rules(path) != nil || jd.judges(s)) {
		return jd.locks.refuse(&demand{c: c, op: opLink, path: path}, errStillOpen)
	}
	list := jd.linked(n, path)
	if len(list) == 0 {
		return 0
	}
	ctx, stop := jd.checkContext(c, cancel)
	defer stop()
	return jd.admitContent(ctx, c, opLink, lb, list)
}

// judges reports whether validators look at what the session writes: those of the name under which
// it began, or of the one that the file has got since.
func (jd *judging) judges(s *session) bool {
	return s.settings.Validate != nil || jd.judge.Rules(s.path()) != nil
}

// errStillOpen refuses a link to a file under way.
var errStillOpen = errors.New("the file is still open for writing, and its content can be checked only when it is closed")

// linked is the content that a link gives a name.
func (jd *judging) linked(n *inode, path string) []judge.Candidate {
	v := jd.judge.Rules(path)
	jd.nodes.mu.Lock()
	s := n.sess
	jd.nodes.mu.Unlock()
	if v == nil || s != nil || !n.isRegular() {
		return nil
	}
	return []judge.Candidate{{Content: openContent{jd.handles, jd.nodes.fdOf(n)}, Path: path, Rules: v}}
}

// judgeEmpty judges the content of a file that is made without being opened.
func (jd *judging) judgeEmpty(c *caller, path string) unix.Errno {
	v := jd.judge.Rules(path)
	if v == nil {
		return 0
	}
	fd, err := unix.MemfdCreate("empty", unix.MFD_CLOEXEC)
	if err != nil {
		return errnoOf(err)
	}
	defer unix.Close(fd)
	k := judge.Candidate{Content: openContent{jd.handles, fd}, Path: path, Rules: v}
	return jd.admitContent(jd.judge.Context(), c, opMknod, labelOf(c, opMknod, path), []judge.Candidate{k})
}

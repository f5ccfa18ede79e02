package fs

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/lockwait"
	"latchfs/fs/printable"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// candidate is content that an operation is about to give a name.
type candidate struct {
	// Where it is: under a name, or in a session's shadow, or behind fd.
	dir  *inode
	name string
	sess *session
	fd   int // O_PATH will do

	path string // the name that it is to have
	v    *policy.Validation
}

// open opens the content for reading. errEnded says that the session is over, and
// the content under its name.
func (k *candidate) open(f *FS) (int, error) {
	switch {
	case k.sess != nil:
		return k.sess.dupShadow()
	case k.dir != nil:
		return commit.OpenUnnoticed(f.fdOf(k.dir), k.name)
	}
	return f.reopenUnnoticed(k.fd)
}

// dupShadow is a descriptor of what the session has written so far.
func (s *session) dupShadow() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.hasEnded() {
		return -1, errEnded
	}
	if e := s.fillLocked(); e != 0 {
		return -1, e
	}
	return unix.FcntlInt(uintptr(s.shadow.FD()), unix.F_DUPFD_CLOEXEC, 0)
}

// from is where the content is, for people; "" if it has no name.
func (k *candidate) from(f *FS) string {
	switch {
	case k.sess != nil:
		return k.sess.path()
	case k.dir != nil:
		return f.path(k.dir, k.name)
	}
	return ""
}

// takesTime reports whether one of the candidates should not be judged while the
// kernel holds directories locked.
func (f *FS) takesTime(list []candidate) bool {
	for i := range list {
		k := &list[i]
		if k.sess != nil && k.sess.working.Load() != nil {
			return true // it is not known yet what there will be to judge
		}
		var st unix.Stat_t
		fd, err := k.open(f)
		if err != nil {
			continue
		}
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err == nil && !isQuick(k.v, st.Size) {
			return true
		}
	}
	return false
}

// admitContent judges the candidates of an operation on names, and says why one is
// not accepted. What was accepted before, under the same lock, is not looked at
// again.
func (f *FS) admitContent(ctx context.Context, c *caller, op string, lb *label, list []candidate) unix.Errno {
	for i := range list {
		k := &list[i]
		fd, err := k.open(f)
		if err == errEnded {
			return errEnded
		}
		if err == nil {
			err = f.admitOne(ctx, fd, lb, k, c.uid)
			unix.Close(fd)
		}
		if err != nil {
			return f.refuseContent(c, op, k.path, k.from(f), err)
		}
	}
	return 0
}

func (f *FS) admitOne(ctx context.Context, fd int, lb *label, k *candidate, uid uint32) error {
	if lb.hasAccepted(k.path, fd) {
		return nil
	}
	seen, err := f.judge(ctx, fd, k.path, k.v, uid)
	if err == nil {
		lb.accept(k.path, seen)
	}
	return err
}

// accepted is content that has passed as that of a path.
type accepted struct {
	path    string
	version commit.Version
}

func (lb *label) accept(path string, v commit.Version) {
	list := []accepted{{path, v}}
	if old := lb.accepted.Load(); old != nil {
		list = append(list, *old...)
	}
	lb.accepted.Store(&list)
}

// hasAccepted reports whether the content of fd, as it is, has passed.
func (lb *label) hasAccepted(path string, fd int) bool {
	list := lb.accepted.Load()
	var st unix.Stat_t
	if list == nil || unix.Fstat(fd, &st) != nil {
		return false
	}
	return slices.Contains(*list, accepted{path, commit.VersionOf(&st)})
}

// refuseContent records that an operation was refused because of the content that
// it would have given a name; from is where that stays, if it has a name.
func (f *FS) refuseContent(c *caller, op, path, from string, err error) unix.Errno {
	e := judgeErrno(err)
	if e == unix.EINTR {
		return e
	}
	x := refusals.Refusal{
		Path: path, Op: op, Errno: e, Reason: judgeReason(err), Verdict: verdictOf(err),
		Owner: c.owner, UID: c.uid, Lineage: c.ancestors(),
	}
	detail := map[string]any{
		"operation": op, "errno": unix.ErrnoName(e), "reason": x.Reason, "program": c.program(), "uid": c.uid,
	}
	if from != "" {
		x.Hint = "It is still in " + printable.Line(from) + "."
		detail["from"] = from
	}
	noteVerdict(detail, err)
	f.explain(x)
	f.event(audit.Event{
		Time: time.Now(), Event: "refusal", Path: path, PID: c.owner.PID, Actor: f.actorOf(&label{c: c}), Detail: detail,
	})
	return e
}

// checkContext ends with the mount, and with a caller who is killed or otherwise
// called away.
func (f *FS) checkContext(c *caller, cancel <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(f.checks)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-cancel:
		}
		t := time.NewTicker(lockwait.SignalPoll)
		defer t.Stop()
		for {
			// Nothing pending means here that another thread took the signal.
			if p := f.proc.Pending(uint32(c.tid)); p != proc.NoReason && p != proc.Nothing {
				stop()
			}
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
	}()
	return ctx, stop
}

// toJudge lists the candidates whenever it is called; nil: there are none.
func (r *renaming) toJudge() func() []candidate {
	if len(r.candidates()) == 0 {
		return nil
	}
	return func() []candidate {
		_ = r.look() // what is not there is no candidate
		return r.candidates()
	}
}

// candidates is the content that the renaming gives names, as the names were when
// they were looked at.
func (r *renaming) candidates() []candidate {
	var list []candidate
	add := func(from, to place, st *unix.Stat_t) {
		path := r.f.path(to.dir, to.name)
		k := candidate{path: path, v: r.f.validation(path)}
		if st == nil {
			k.sess = r.ownSession(from)
		} else if st.Mode&unix.S_IFMT == unix.S_IFREG {
			k.dir, k.name = from.dir, from.name
		}
		if k.v != nil && (k.sess != nil || k.dir != nil) {
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
func (r *renaming) judge(list []candidate) unix.Errno {
	if len(list) == 0 {
		return 0
	}
	ctx, stop := r.f.checkContext(r.c, r.cancel)
	defer stop()
	return r.f.admitContent(ctx, r.c, opRename, r.lb, list)
}

// judgeUnnamed judges a new file that is to appear under its own name before it is
// closed.
func (r *renaming) judgeUnnamed(s *session, p place) unix.Errno {
	path := r.f.path(p.dir, p.name)
	v := r.f.validation(path)
	if v == nil {
		return 0
	}
	return r.judge([]candidate{{sess: s, path: path, v: v}})
}

// judgeLink judges what link(2) gives a name: n, which may be an unnamed file. A
// file that its owner has open for writing would be written on without anybody to
// judge it.
func (f *FS) judgeLink(c *caller, cancel <-chan struct{}, lb *label, n *inode, path string) unix.Errno {
	f.mu.Lock()
	s := n.sess
	f.mu.Unlock()
	if s != nil && (f.validation(path) != nil || f.validation(s.path()) != nil) {
		return f.refuse(&demand{c: c, op: opLink, path: path}, errStillOpen)
	}
	list := f.linked(n, path)
	if len(list) == 0 {
		return 0
	}
	ctx, stop := f.checkContext(c, cancel)
	defer stop()
	return f.admitContent(ctx, c, opLink, lb, list)
}

// errStillOpen refuses a link to a file under way.
var errStillOpen = errors.New("the file is still open for writing, and its content can be checked only when it is closed")

// linked is the content that a link gives a name.
func (f *FS) linked(n *inode, path string) []candidate {
	v := f.validation(path)
	f.mu.Lock()
	s := n.sess
	f.mu.Unlock()
	if v == nil || s != nil || !n.isRegular() {
		return nil
	}
	return []candidate{{fd: f.fdOf(n), path: path, v: v}}
}

// judgeEmpty judges the content of a file that is made without being opened.
func (f *FS) judgeEmpty(c *caller, path string) unix.Errno {
	v := f.validation(path)
	if v == nil {
		return 0
	}
	fd, err := unix.MemfdCreate("empty", unix.MFD_CLOEXEC)
	if err != nil {
		return errnoOf(err)
	}
	defer unix.Close(fd)
	return f.admitContent(f.checks, c, opMknod, c.label(opMknod, path), []candidate{{fd: fd, path: path, v: v}})
}

package transaction

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Places as members find them.
var (
	free       = Place{Errno: unix.ENOENT}
	unreadable = Place{Errno: unix.EIO}
	there      = Place{Kind: Regular}
	linked     = Place{Kind: Linked}
	directory  = Place{Kind: Dir}
	special    = Place{Kind: Special}

	begun       = Place{Errno: unix.ENOENT, Writing: ByMembers}          // a new file
	written     = Place{Kind: Regular, Writing: ByMembers}               // another version
	inPlace     = Place{Kind: Linked, Writing: ByMembers, InPlace: true} // through one of its names
	shared      = with(inPlace, func(p *Place) { p.Shared = true })      // and others must see it
	foreign     = Place{Errno: unix.ENOENT, Writing: ByOthers}           // somebody else's new file
	foreignOver = Place{Kind: Regular, Writing: ByOthers}                // somebody else's version
	removed     = Place{Kind: Regular, Change: Removed}
	moved       = Place{Kind: Regular, Change: Moved}
	removedDir  = Place{Kind: Dir, Change: RemovedDir}
	made        = Place{Kind: Special, Change: Made} // a symbolic link
	madeDir     = Place{Kind: Dir, Change: MadeDir}
	again       = with(written, func(p *Place) { p.Change = Removed })     // removed, and made anew
	overMoved   = with(written, func(p *Place) { p.Change = Moved })       // moved, and made anew
	lateThere   = Place{Kind: Regular, Change: Removed, Writing: ByOthers} // never, but harmless
	goneOutside = Place{Errno: unix.ENOENT, Change: Removed}               // somebody has removed it outside the mount
)

func with(p Place, change func(p *Place)) Place {
	change(&p)
	return p
}

func (p Place) String() string {
	return fmt.Sprintf("{%v writing %d kind %d in place %v shared %v}", p.Change, p.Writing, p.Kind, p.InPlace, p.Shared)
}

func TestChange(t *testing.T) {
	for _, tc := range []struct {
		c              Change
		gone, dir      bool
		member, others bool // from whom it hides what has the name
	}{
		{c: Unchanged},
		{c: Made, others: true},
		{c: MadeDir, dir: true, others: true},
		{c: Removed, gone: true, member: true},
		{c: RemovedDir, gone: true, dir: true, member: true},
		{c: Moved, gone: true, member: true},
	} {
		if tc.c.IsGone() != tc.gone || tc.c.IsDir() != tc.dir {
			t.Errorf("%v: gone %v, directory %v", tc.c, tc.c.IsGone(), tc.c.IsDir())
		}
		if tc.c.Hides(true) != tc.member || tc.c.Hides(false) != tc.others {
			t.Errorf("%v: hidden from members %v, from others %v", tc.c, tc.c.Hides(true), tc.c.Hides(false))
		}
	}
	if Moved.String() != "moved" {
		t.Errorf("it is called %q", Moved)
	}
}

func TestKindOf(t *testing.T) {
	for want, st := range map[Kind]unix.Stat_t{
		Regular: {Mode: unix.S_IFREG | 0o644, Nlink: 1},
		Linked:  {Mode: unix.S_IFREG | 0o644, Nlink: 2},
		Dir:     {Mode: unix.S_IFDIR | 0o755, Nlink: 4},
		Special: {Mode: unix.S_IFLNK | 0o777, Nlink: 2},
	} {
		if got := KindOf(&st); got != want {
			t.Errorf("mode %o is of kind %d, want %d", st.Mode, got, want)
		}
	}
}

func TestSeen(t *testing.T) {
	for _, p := range []Place{there, linked, directory, special, begun, written, inPlace, foreignOver, made, madeDir, again, overMoved} {
		if !p.IsSeen() {
			t.Errorf("%v is not seen", p)
		}
	}
	for _, p := range []Place{free, unreadable, foreign, removed, moved, removedDir, lateThere, goneOutside} {
		if p.IsSeen() {
			t.Errorf("%v is seen", p)
		}
	}
}

func TestMayMove(t *testing.T) {
	for _, tc := range []struct {
		from, to  Place
		noReplace bool
		want      unix.Errno
	}{
		{from: there, to: free},
		{from: written, to: free},
		{from: begun, to: free},
		{from: again, to: free},
		{from: overMoved, to: there},
		{from: foreign, to: free}, // its lock is asked for
		{from: foreignOver, to: free},
		{from: free, to: there, want: unix.ENOENT},
		{from: unreadable, to: there, want: unix.EIO},
		{from: removed, to: free, want: unix.ENOENT},
		{from: moved, to: free, want: unix.ENOENT},
		{from: removedDir, to: free, want: unix.ENOENT},
		{from: linked, to: free, want: unix.EXDEV},
		{from: inPlace, to: free, want: unix.EXDEV},
		{from: directory, to: free, want: unix.EXDEV},
		{from: special, to: free, want: unix.EXDEV},
		{from: made, to: free, want: unix.EXDEV},
		{from: madeDir, to: free, want: unix.EXDEV},

		{from: there, to: there},
		{from: there, to: linked},
		{from: there, to: special},
		{from: there, to: written},
		{from: there, to: begun},
		{from: there, to: again},
		{from: there, to: overMoved},
		{from: there, to: removed},
		{from: there, to: removedDir}, // refused when it is known what it replaces
		{from: there, to: foreign},
		{from: there, to: unreadable},
		{from: there, to: directory, want: unix.EISDIR},
		{from: there, to: madeDir, want: unix.EISDIR},
		{from: there, to: made, want: unix.EXDEV},

		{from: there, to: free, noReplace: true},
		{from: there, to: removed, noReplace: true},
		{from: there, to: foreign, noReplace: true},
		{from: there, to: there, noReplace: true, want: unix.EEXIST},
		{from: there, to: begun, noReplace: true, want: unix.EEXIST},
		{from: there, to: made, noReplace: true, want: unix.EEXIST},
		{from: there, to: directory, noReplace: true, want: unix.EEXIST},
	} {
		if got := MayMove(&tc.from, &tc.to, tc.noReplace); got != tc.want {
			t.Errorf("from %v to %v (no replace: %v): %v, want %v", tc.from, tc.to, tc.noReplace, got, tc.want)
		}
	}
}

func TestReplaced(t *testing.T) {
	for _, tc := range []struct {
		p        Place
		replaces bool
		want     Base
		errno    unix.Errno
	}{
		{p: free, want: NoBase},
		{p: there, want: KindsBase},
		{p: linked, want: KindsBase},
		{p: special, want: KindsBase},
		{p: directory, errno: unix.EISDIR},
		{p: unreadable, errno: unix.EIO},
		{p: begun, want: NoBase},
		{p: written, replaces: true, want: WritersBase},
		{p: again, replaces: true, want: WritersBase},
		{p: overMoved, replaces: true, want: WritersBase},
		{p: inPlace, replaces: true, want: KindsBase},
		{p: shared, replaces: true, errno: unix.EBUSY},
		{p: foreign, errno: unix.EBUSY},
		{p: foreignOver, replaces: true, errno: unix.EBUSY},
		{p: removed, want: ChangesBase},
		{p: moved, want: ChangesBase},
		{p: goneOutside, want: ChangesBase}, // a conflict, when it is prepared
		{p: removedDir, errno: unix.EBUSY},
		{p: made, errno: unix.EBUSY},
		{p: madeDir, errno: unix.EBUSY},
	} {
		if got, e := tc.p.Replaced(tc.replaces); got != tc.want || e != tc.errno {
			t.Errorf("%v, which replaces a file: %v: %d, %v, want %d, %v", tc.p, tc.replaces, got, e, tc.want, tc.errno)
		}
	}
}

func TestMayRemove(t *testing.T) {
	for _, p := range []Place{there, linked, special, begun, written, inPlace, again, made} {
		if e := p.MayRemove(); e != 0 {
			t.Errorf("%v: %v", p, e)
		}
	}
	for want, list := range map[unix.Errno][]Place{
		unix.EISDIR: {directory, madeDir, removedDir, with(madeDir, func(p *Place) { p.Kind = Regular })},
		unix.EBUSY:  {foreign, foreignOver, shared, lateThere},
	} {
		for _, p := range list {
			if e := p.MayRemove(); e != want {
				t.Errorf("%v: %v, want %v", p, e, want)
			}
		}
	}
}

func TestMayMake(t *testing.T) {
	for _, tc := range []struct {
		p    Place
		dir  bool
		back bool
		want unix.Errno
	}{
		{p: free},
		{p: free, dir: true},
		{p: removedDir, dir: true, back: true},
		{p: removedDir, want: unix.EEXIST},
		{p: removed, want: unix.EEXIST},
		{p: removed, dir: true, want: unix.EEXIST},
		{p: moved, dir: true, want: unix.EEXIST},
		{p: there, want: unix.EEXIST},
		{p: directory, dir: true, want: unix.EEXIST},
		{p: madeDir, dir: true, want: unix.EEXIST},
		{p: begun, want: unix.EEXIST},
		{p: made, want: unix.EEXIST},
		{p: foreign},
		{p: with(removedDir, func(p *Place) { p.Writing = ByMembers }), dir: true, want: unix.EEXIST},
	} {
		if back, e := tc.p.MayMake(tc.dir); back != tc.back || e != tc.want {
			t.Errorf("%v, directory %v: comes back %v, %v, want %v, %v", tc.p, tc.dir, back, e, tc.back, tc.want)
		}
	}
}

package content

import "golang.org/x/sys/unix"

// Shadow is the private copy as a Copy needs it; see commit.Shadow.
type Shadow interface {
	// FillTo gives the shadow the content of what is open as base, but not more than
	// size bytes.
	FillTo(base int, size int64) error
	// Mark takes what the shadow is now for unchanged.
	Mark() error
	// Dirty reports whether the shadow was written since the last Mark.
	Dirty() (bool, error)
}

// Copy is the content of one session's shadow. Whoever calls it holds the session's mutex.
type Copy struct {
	shadow Shadow
	old    int  // the file that is replaced, read while the shadow is not filled; or -1
	filled bool // the shadow has the old content, or needs none
	wrote  bool // the daemon itself has changed the content
	cut    bool // by the open that began the session

	failed unix.Errno           // of a write that the shadow has missed
	meta   []func(fd int) error // the changes of metadata
}

// New is the content of a session that has no shadow yet.
func New() Copy { return Copy{old: -1} }

// Begin gives the session its shadow.
func (c *Copy) Begin(sh Shadow) { c.shadow = sh }

// IsFilled reports whether the shadow has all of the content.
func (c *Copy) IsFilled() bool { return c.filled }

// NoteFilled notes that the shadow has the old content, or needs none.
func (c *Copy) NoteFilled() { c.filled = true }

// BeginCut notes that an open that truncates begins the session; changes says whether that
// takes anything from the file.
func (c *Copy) BeginCut(changes bool) { c.filled, c.cut = true, changes }

// FillFrom has the shadow filled before its first change, from what is open as fd, which
// belongs to c from now on.
func (c *Copy) FillFrom(fd int) { c.old = fd }

// Old is the descriptor of the file that is replaced, as long as somebody may be reading
// that; or -1.
func (c *Copy) Old() int { return c.old }

// CloseOld gives that descriptor back.
func (c *Copy) CloseOld() {
	if c.old >= 0 {
		unix.Close(c.old)
		c.old = -1
	}
}

// TakeOld gives that descriptor to the caller, who closes it, if the shadow was never filled:
// nothing else has what the shadow stands for. If it was, the descriptor is given back.
func (c *Copy) TakeOld() (fd int, ok bool) {
	if c.filled || c.old < 0 {
		c.CloseOld()
		return -1, false
	}
	fd, c.old = c.old, -1
	return fd, true
}

// FillTo gives a shadow that is not filled the old content, before its first change. The change
// cuts it to size bytes: on a full disk there may be no room for more of them. After the
// session nothing is left to fill it from.
func (c *Copy) FillTo(size int64) error {
	if c.filled || c.old < 0 {
		return nil
	}
	err := c.shadow.FillTo(c.old, size)
	if err == nil {
		err = c.shadow.Mark()
	}
	c.filled = err == nil // the old file stays open: somebody may be reading it
	return err
}

// Write notes that the daemon has changed the content.
func (c *Copy) Write() { c.wrote = true }

// Replace notes that the daemon has cut the shadow, which needs nothing of the old content, or
// has given it another content.
func (c *Copy) Replace() { c.filled, c.wrote = true, true }

// HasWritten reports whether the daemon has changed the content, or has seen that somebody has.
func (c *Copy) HasWritten() bool { return c.wrote }

// IsChanged reports whether the content is known to have changed, without a look.
func (c *Copy) IsChanged() bool { return c.wrote || c.cut }

// Dirty reports whether the content has changed.
func (c *Copy) Dirty() (bool, error) {
	if c.IsChanged() {
		return true, nil
	}
	if !c.filled {
		return false, nil
	}
	return c.shadow.Dirty()
}

// IsClean reports whether the content is certainly what it was.
func (c *Copy) IsClean() bool {
	dirty, err := c.Dirty()
	return err == nil && !dirty
}

// IsUntouched reports whether nothing was written since the open that began the session, which
// may have cut the file.
func (c *Copy) IsUntouched() bool {
	if c.wrote {
		return false
	}
	dirty, err := c.shadow.Dirty()
	return err == nil && !dirty
}

// GoOn takes what the shadow is now for the old content, which was published. mapped says that
// somebody may store through a mapping, which leaves no trace in the times. The metadata of what
// was published is as it should be.
func (c *Copy) GoOn(mapped bool) { c.wrote, c.cut, c.meta = mapped, false, nil }

// Mark takes what the shadow is now for unchanged.
func (c *Copy) Mark() error { return c.shadow.Mark() }

// Fail notes that the shadow has missed a write, or the disk an fsync, for this reason.
func (c *Copy) Fail(e unix.Errno) { c.failed = e }

// Failed is why the shadow must not be committed; 0 if it may be.
func (c *Copy) Failed() unix.Errno { return c.failed }

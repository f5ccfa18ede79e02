package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/account"
)

// What users have open costs the daemon descriptors, of which there are so many for all of
// them. Ordinary users may have half of them each, and three quarters together, beyond a
// share of which each is sure: whoever opens files and never closes them keeps no others
// out. What costs descriptors is counted at its most.
const (
	perHandle  = 2 // the file's, and the handle's own
	perSession = 3 // the shadow, its inode, and what it replaces
	perStaged  = 1 // the directory's
)

// newDescriptors makes the accounts of all users' descriptors. How many there are is found
// out later.
func newDescriptors() *account.Book {
	return account.New(descriptorLimits(1<<20), unbounded())
}

func descriptorLimits(n int64) account.Limits {
	return account.Limits{User: n / 2, Share: n / 32, Total: n / 4 * 3}
}

// mayOpenMore reports whether the sender of a request may have one more file open, ENFILE if not.
// A path is made only for a refusal.
func (rp *reports) mayOpenMore(h *Request, op string, path func() string) unix.Errno {
	if rp.callers.descriptors.Fits(h.UID, perHandle+perSession) {
		return 0
	}
	return rp.hasTooMany(rp.callers.callerOf(h), op, path())
}

// hasTooMany refuses a caller whose user has as much open as one user may have.
func (rp *reports) hasTooMany(c *caller, op, path string) unix.Errno {
	return rp.refuseWith(c, op, path, unix.ENFILE,
		"The processes of this user have as many files open here as one user may have",
		"Close some, or have the daemon given more descriptors (LimitNOFILE of its unit).")
}

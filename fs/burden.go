package fs

import (
	"os"
	"runtime"
	"time"

	"latchfs/fs/account"
)

// What ordinary users may make the daemon keep.
const (
	burdenOfUser  = 32 << 20
	burdenShare   = 1 << 20
	burdenOfUsers = 128 << 20

	// A close asks which other processes have the file open, which takes about 3 µs for
	// each of their descriptors. Beyond this the kernel's RELEASE has to tell.
	looksAtOnce    = 1 << 17
	looksPerSecond = 1 << 16
)

// newBook makes the accounts of all users. Root has no limit, and neither has the
// mount's own user, whose daemon it is.
func newBook() *account.Book {
	return account.New(account.Limits{User: burdenOfUser, Share: burdenShare, Total: burdenOfUsers}, unbounded())
}

// Beside another user's requests those of one user leave a processor free, and of what
// .locks shows, which may take many milliseconds to put together, one thing is put
// together at a time.
const (
	turnPatience = 5 * time.Millisecond
	viewPatience = 100 * time.Millisecond
)

func newTurns() (requests, views *account.Turns) {
	here := &account.Presence{}
	return account.NewTurns(max(1, runtime.GOMAXPROCS(0)-1), turnPatience, here, unbounded()),
		account.NewTurns(1, viewPatience, here, unbounded())
}

// newLooks bounds how many descriptors the daemon looks at for each user. Root has no
// limit, and neither has the mount's own user.
func newLooks() *account.Rate { return account.NewRate(looksAtOnce, looksPerSecond, unbounded()) }

// unbounded says which users have no limits.
func unbounded() func(uid uint32) bool {
	own := uint32(os.Geteuid())
	return func(uid uint32) bool { return uid == 0 || uid == own }
}

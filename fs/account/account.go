// Package account bounds the memory that each user makes the daemon keep: replies that
// nobody reads, requests without an end, listings of directories, unfinished lines,
// locks, open files of .locks. It counts bytes and allocates nothing itself.
//
// A user may have up to a limit, and all users together up to a total. Each is sure of
// a share, which the others cannot use up, and of one thing of any size besides: a
// program that lists a directory with a million names works as long as it holds nothing
// else. Privileged users have no limit, and what they have takes nothing from others. A
// Rate does the same with work.
package account

import "sync"

// Limits are numbers of bytes, or of whatever else a Book counts.
type Limits struct {
	User  int64 // how much one user may have
	Share int64 // how much of that is sure
	Total int64 // how much all users may have together, beyond their shares
}

// Book has the accounts of all users. Its methods may be called from any goroutine.
type Book struct {
	limits Limits
	exempt func(uid uint32) bool

	mu     sync.Mutex // guards what follows, and limits
	users  map[uint32]int64
	beyond int64 // what users have above their shares
}

// SetLimits changes the limits. What users have stays theirs.
func (b *Book) SetLimits(l Limits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limits, b.beyond = l, 0
	for _, n := range b.users {
		b.beyond += b.excess(n)
	}
}

// New makes an empty book. exempt says who has no limit.
func New(l Limits, exempt func(uid uint32) bool) *Book {
	return &Book{limits: l, exempt: exempt, users: map[uint32]int64{}}
}

// Take charges a user for n more bytes. It returns false, and charges nothing, if that
// is more than the user may have.
func (b *Book) Take(uid uint32, n int64) bool {
	if b.exempt(uid) {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(uid, n) {
		return false
	}
	b.add(uid, n)
	return true
}

// Charge is Take for what cannot be refused any more.
func (b *Book) Charge(uid uint32, n int64) {
	if b.exempt(uid) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(uid, n)
}

// Give ends a charge.
func (b *Book) Give(uid uint32, n int64) { b.Charge(uid, -n) }

// Fits reports whether a user may have n more bytes.
func (b *Book) Fits(uid uint32, n int64) bool {
	if b.exempt(uid) {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fits(uid, n)
}

// Used is what a user has.
func (b *Book) Used(uid uint32) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.users[uid]
}

func (b *Book) fits(uid uint32, n int64) bool {
	has := b.users[uid]
	switch {
	case n <= 0 || has == 0 || has+n <= b.limits.Share:
		return true
	case has+n > b.limits.User:
		return false
	}
	return b.beyond+b.excess(has+n)-b.excess(has) <= b.limits.Total
}

func (b *Book) excess(n int64) int64 { return max(n-b.limits.Share, 0) }

func (b *Book) add(uid uint32, n int64) {
	has := b.users[uid]
	b.beyond += b.excess(has+n) - b.excess(has)
	if has+n == 0 {
		delete(b.users, uid)
		return
	}
	b.users[uid] = has + n
}

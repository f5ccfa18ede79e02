package lockmgr

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Key names one lockable thing. It is opaque but for one property: '/'
// separates components, so that Rekey can move a key with everything below it.
// The table compares keys byte by byte and cleans nothing.
type Key string

// below reports whether k lies strictly below dir.
func (k Key) below(dir Key) bool {
	return len(k) > len(dir) && k[len(dir)] == '/' && strings.HasPrefix(string(k), string(dir))
}

// apart is the root of the keys that begin with it.
const apart Key = "//"

// parent is k without its last component; the parent of a single component is
// the empty key, or apart. A root is its own parent.
func (k Key) parent() Key {
	i := strings.LastIndexByte(string(k), '/')
	switch {
	case i <= 1 && len(k) > 1 && k[:2] == apart:
		return apart
	case i >= 0:
		return k[:i]
	}
	return ""
}

// Mode is the strength of a lock; a larger Mode is stronger. The zero Mode is
// invalid, so that a forgotten field is an error and not a weak lock.
type Mode uint8

const (
	// Shared admits other Shared locks and one Update lock.
	Shared Mode = iota + 1
	// Update is for reading now and writing later: it admits Shared locks, but
	// no second Update, so that two of them cannot block each other's upgrade.
	Update
	// Exclusive admits nobody else.
	Exclusive

	modes = int(Exclusive) + 1 // the size of an array indexed by Mode
)

// String returns the lower-case name of the mode.
func (m Mode) String() string {
	switch m {
	case Shared:
		return "shared"
	case Update:
		return "update"
	case Exclusive:
		return "exclusive"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Class says by which rules a lock is compared with others.
type Class uint8

const (
	// Session is a lock of latchfs itself: an open for writing, a path
	// operation, a guard.
	Session Class = iota
	// Flock is a flock(2) lock: whole file, one for each open file description.
	Flock
	// Posix is an fcntl(2) byte-range lock, traditional or open file
	// description.
	Posix
)

// String returns the lower-case name of the class.
func (c Class) String() string {
	switch c {
	case Session:
		return "session"
	case Flock:
		return "flock"
	case Posix:
		return "posix"
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// Owner identifies a process: its pid, and its start time because pids are
// reused. PID 0 stands for a process in a pid namespace that cannot be seen;
// Start is then a serial number that makes the owner unique, and such an owner
// is kin to nobody but itself. The zero Owner is invalid.
type Owner struct {
	PID   int32
	Start uint64
}

// Birth is a moment in the life of the machine: clock ticks since boot, and
// the last pid handed out at that moment, because many processes are born
// within one tick and pids rise, until they begin anew.
type Birth struct {
	Tick uint64
	PID  int32
}

// manyBirths is more than a tick can see, and half of all pids where there are
// fewest (32768, see pid_max in proc_sys_kernel(5)): pids that are further apart
// have wrapped around in between.
const manyBirths = 1 << 14

// After reports whether b is later than o.
func (b Birth) After(o Birth) bool {
	if b.Tick != o.Tick {
		return b.Tick > o.Tick
	}
	later := b.PID - o.PID
	return later > 0 && later < manyBirths || later <= -manyBirths
}

// Ancestor is one ancestor of a requester. Child is the birth of that
// ancestor's child on the way down to the requester: the requester is an heir
// of what the ancestor took before.
type Ancestor struct {
	Owner Owner
	Child Birth
}

// Range is a range of bytes, both ends included, counted from 0. It counts for
// Posix only. As in fcntl(2), whose offsets are signed, no byte lies behind
// Whole.End: to lock up to there is to lock what the file will grow to.
type Range struct {
	Start, End uint64
}

// Whole is the range of a whole file, however long it grows.
var Whole = Range{0, math.MaxInt64}

// overlaps reports whether r and o have a byte in common.
func (r Range) overlaps(o Range) bool { return r.Start <= o.End && o.Start <= r.End }

// touches reports whether r and o overlap or lie side by side. Their ends are
// valid ones, to which 1 can be added.
func (r Range) touches(o Range) bool {
	return r.overlaps(o) || r.End+1 == o.Start || o.End+1 == r.Start
}

// union is the smallest range that holds both.
func (r Range) union(o Range) Range {
	return Range{min(r.Start, o.Start), max(r.End, o.End)}
}

// Request asks for a lock. The table copies Keys; Lineage and Label it keeps,
// so the caller does not change them afterwards.
type Request struct {
	Keys    []Key      // taken all or nothing; in any order, repetitions allowed; exactly one for Flock and Posix
	Trees   []Key      // further keys, each with everything below it; Session only
	Mode    Mode       // Flock and Posix know Shared and Exclusive only
	Class   Class      // by which rules it conflicts
	Client  uint64     // Flock: the open file description; Posix: the lock owner; Session: 0
	Range   Range      // Posix: which bytes, within Whole
	Owner   Owner      // the requesting process
	Lineage []Ancestor // its ancestors, nearest first
	Since   Birth      // the moment of the request; descendants born after it are heirs of the lock
	NoWait  bool       // fail with ErrWouldBlock instead of waiting

	// Gate is a lock that lets heirs in, but not side by side: those who do not
	// wait for it wait for each other. A lock with Trees is one.
	Gate bool
	// Weak is the lock of a process that could not keep others out by itself, for
	// it may only read. It is advisory: see weak.go.
	Weak bool
	// TTL is the lease: how long the holder may show no sign of life before
	// the lock can be stolen. 0: it cannot.
	TTL time.Duration
	// Yields lets whoever waits take the lock when its lease has expired.
	Yields bool
	// Steal takes the lock from holders whose lease has expired, now or while
	// the request waits, if all who are in the way are such.
	Steal bool
	// Inbox is told when a wait is over; nil: Lock.Done alone tells.
	Inbox *Inbox

	Now   time.Time // the time of the request, for records only
	Label any       // opaque, handed back in snapshots
}

func (r *Request) validate() error {
	switch {
	case len(r.Keys)+len(r.Trees) == 0:
		return fmt.Errorf("%w: no keys", ErrInvalid)
	case r.Mode < Shared || r.Mode > Exclusive:
		return fmt.Errorf("%w: mode %d", ErrInvalid, r.Mode)
	case r.Class > Posix:
		return fmt.Errorf("%w: class %d", ErrInvalid, r.Class)
	case r.Owner == Owner{}:
		return fmt.Errorf("%w: no owner", ErrInvalid)
	case r.Class == Session:
		return nil
	case len(r.Keys) != 1 || len(r.Trees) > 0:
		return fmt.Errorf("%w: a %v lock on %d keys", ErrInvalid, r.Class, len(r.Keys)+len(r.Trees))
	case r.Mode == Update:
		return fmt.Errorf("%w: %v knows no update locks", ErrInvalid, r.Class)
	case r.Class == Posix && (r.Range.Start > r.Range.End || r.Range.End > Whole.End):
		return fmt.Errorf("%w: range %d-%d", ErrInvalid, r.Range.Start, r.Range.End)
	}
	return nil
}

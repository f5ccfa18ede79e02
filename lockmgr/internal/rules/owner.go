package rules

import "fmt"

// Owner identifies a process: its pid, and its start time because pids are
// reused. PID 0 stands for a process in a pid namespace that cannot be seen;
// Start is then a serial number that makes the owner unique, and such an owner
// is kin to nobody but itself. The zero Owner is invalid.
type Owner struct {
	PID   int32
	Start uint64
}

// String names the process.
func (o Owner) String() string {
	if o.PID == 0 {
		return fmt.Sprintf("foreign process #%d", o.Start)
	}
	return fmt.Sprintf("pid %d", o.PID)
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

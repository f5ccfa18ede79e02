package fs

import (
	"testing"
	"testing/synctest"
	"time"
)

// The lock may be granted in the moment in which an operation has waited for it long enough
// under the kernel's locks: either the operation has the lock, or nobody has it.
func TestGrantAsAnOperationGivesUp(t *testing.T) {
	for i := range 30 {
		synctest.Test(t, func(t *testing.T) {
			r, _ := unmounted(t, "")
			f := r.f
			root := f.kernel.inodeOf(rootID)
			demand := func() *demand {
				return f.locks.fileDemand(f.callers.room.Itself(), opUnlink, time.Second, place{root, "f", nil})
			}
			has, err := f.locks.acquire(demand(), true)
			if err != nil {
				t.Fatal(err)
			}
			d := demand()
			l, err := f.locks.acquire(d, false)
			if err != nil {
				t.Fatal(err)
			}
			for range i % 4 { // the timers of one moment fire in any order
				time.AfterFunc(unparkedGrace, func() {})
			}
			time.AfterFunc(unparkedGrace, func() { f.rules.table.Release(has) })
			got, e := f.parking.readmit(&walk{d: d, lock: l})
			switch {
			case e == 0 && (got == nil || !got.Held()):
				t.Fatal("the operation goes on without its lock")
			case e == 0:
				f.rules.table.Release(got)
			case l.Held():
				t.Fatal("the operation was refused, and has the lock")
			}
			synctest.Wait()
		})
	}
}

package knowledge

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"latchfs/lockmgr"
)

// What is known of very many files that a script has read once takes the memory that the
// table may take, and no more.
func TestMemoryIsBounded(t *testing.T) {
	heap := func() int {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int(s.HeapAlloc)
	}
	o := func(n int) lockmgr.Owner { return lockmgr.Owner{PID: int32(n), Start: 1} }
	before, table := heap(), New(fade)
	for i := range 40_000 {
		now, pid := time.Unix(int64(i), 0), 10+i%20_000
		table.Saw(now, Key(fmt.Sprintf("directory%d/file%d", i/1000, i)), Stamp{Ino: uint64(i)}, Who{Self: o(pid), Relatives: []lockmgr.Owner{o(pid + 1), o(2), o(1)}})
		if i%10_000 == 0 {
			for range table.Unsaved("x") { // as does a daemon
			}
		}
	}
	if took := heap() - before; took > MaxBytes*3/2 {
		t.Errorf("%d bytes are taken, and %d are counted", took, table.bytes)
	}
	table.checkInvariants(t)
}

package integration

import "testing"

// utime(f, NULL) takes the time of the kernel's tick, as in a plain directory: it may be
// earlier than the clock that the program has just read, and is never earlier than the
// tick at that moment.
func TestTouchTakesTheTimeOfTheTick(t *testing.T) {
	const program = `
import os, time
CLOCK_REALTIME_COARSE = 5
open("f", "w").close()
for i in range(300):
    tick = time.clock_gettime_ns(CLOCK_REALTIME_COARSE)
    os.utime("f")
    mtime = os.stat("f").st_mtime_ns
    assert mtime >= tick, "%d ns before the tick" % (tick - mtime)
    assert mtime <= time.time_ns(), "%d ns from now" % (mtime - time.time_ns())
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, program)
	})
}

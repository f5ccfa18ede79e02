package proc

import (
	"testing"

	"latchfs/lockmgr/proc/internal/procfs"
)

// What a dying thread closes before it is on its way out is the core that was written for it.
func TestEndOfThreadThatDumpsCore(t *testing.T) {
	for _, tt := range []struct {
		what    string
		flags   uint64
		sig     int
		exiting bool
	}{
		{"killed in a close", 0, 6, false},
		{"writes its core", procfs.DumpingCore, 0, false},
		{"has written its core", procfs.DumpingCore | procfs.Exiting, 6, true},
		{"dies without a core", procfs.Exiting, 6, true},
	} {
		sig, exiting := endOfThread(&procfs.Stat{State: 'R', Flags: tt.flags, ExitCode: 0x80 | 6})
		if sig != tt.sig || exiting != tt.exiting {
			t.Errorf("%s: signal %d, exiting %t, want %d, %t", tt.what, sig, exiting, tt.sig, tt.exiting)
		}
	}
}

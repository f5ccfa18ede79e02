package integration

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// needsLatchfs skips what has no meaning on a plain directory.
func needsLatchfs(t testing.TB) {
	t.Helper()
	if *plain {
		t.Skip("with -plain there is no latchfs")
	}
}

// The harness itself: a file saved by one process is read by another, whoever
// mounted and however.
func TestHarnessMountAnswers(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("a", "one")
		if got := m.Client(t).ReadFile("a"); got != "one" {
			t.Errorf("another client reads %q", got)
		}
		if out := m.Python(t, `import os; print(open("a").read(), os.getuid())`); !strings.HasPrefix(out, "one ") {
			t.Errorf("python reads %q", out)
		}
		if got := m.List(""); len(got) != 1 || got[0] != "a" {
			t.Errorf("listing %q", got)
		}
	})
}

// MustBlock must see a call that waits, and the call must return once it need
// not wait any more.
func TestHarnessSeesAWait(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("a", "one")
		holder, waiter := m.Client(t), m.Client(t)
		h, w := holder.Open("a", unix.O_RDONLY), waiter.Open("a", unix.O_RDONLY)
		holder.OK(flockReq(h, unix.LOCK_EX))
		call := waiter.Go(flockReq(w, unix.LOCK_EX))
		call.MustBlock(t)
		holder.OK(flockReq(h, unix.LOCK_UN))
		call.OK()
	})
}

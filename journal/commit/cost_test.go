package commit

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// BenchmarkCost is the processor time of a session that writes 4 KiB and waits for no sync:
// until the close returns, and afterwards, when what stood by is removed.
func BenchmarkCost(b *testing.B) {
	for name, at := range filesystems {
		for _, way := range []string{"new", "lazy"} {
			b.Run(name+"/"+way, func(b *testing.B) {
				root, err := os.MkdirTemp(at, "bench-")
				check(b, err)
				defer os.RemoveAll(root)
				w := newWorld(b, root)
				w.s.disk.Fault = nil
				dir, content := w.openDir("."), make([]byte, 4096)
				var closing, settling int64
				n := 0
				for b.Loop() {
					start := cpuTime(b)
					w.session(dir, way, n, content)
					closing += cpuTime(b) - start
					if n++; n%256 == 0 {
						check(b, unix.Syncfs(dirFD(w)))
						start = cpuTime(b)
						check(b, w.settleAll())
						settling += cpuTime(b) - start
					}
				}
				b.ReportMetric(float64(closing)/float64(n)/1e3, "close-µs")
				b.ReportMetric(float64(settling)/float64(max(n-n%256, 1))/1e3, "settle-µs")
				b.ReportMetric(0, "ns/op")
				check(b, w.settleAll())
			})
		}
	}
}

func dirFD(w *world) int { return int(w.dir.Fd()) }

// session is one save, of the file number n or of one and the same.
func (w *world) session(dir int, way string, n int, content []byte) {
	so := ShadowOptions{Dir: dir, Name: "f", Base: -1, Mode: 0o644, UID: -1, GID: -1}
	o := PublishOptions{Dir: dir, Name: so.Name, Durability: Durability(way)}
	if way == "new" {
		so.Name, o.Durability = fmt.Sprint("f", n), Auto
		o.Name = so.Name
	} else if fd, err := disk.OpenUnnoticed(dir, so.Name); err == nil {
		defer unix.Close(fd)
		st := statFD(w.t, fd)
		v := disk.VersionOf(st)
		so.Base, o.Base = fd, &v
	}
	sh, err := w.s.NewShadow(so)
	check(w.t, err)
	check(w.t, sh.Mark())
	check(w.t, disk.WriteAll(sh.FD(), content, 0))
	_, err = sh.Publish(o)
	check(w.t, err)
	check(w.t, sh.Discard())
}

func cpuTime(b *testing.B) int64 {
	var t unix.Timespec
	check(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t))
	return t.Nano()
}

package proc

import (
	"os"
	"testing"

	"latchfs/lockmgr"
)

// aThread is one of our own that does not lead.
func aThread(b *testing.B) uint32 {
	b.Helper()
	tids, err := newReader(b).root.Threads(int32(os.Getpid()))
	if err != nil {
		b.Fatal(err)
	}
	for _, tid := range tids {
		if tid != int32(os.Getpid()) {
			return uint32(tid)
		}
	}
	b.Fatal("no second thread")
	return 0
}

func BenchmarkThread(b *testing.B) {
	for _, who := range []struct {
		name string
		tid  uint32
	}{{"leader", uint32(os.Getpid())}, {"thread", aThread(b)}} {
		run := func(name string, before func(*Reader)) {
			b.Run(who.name+"/"+name, func(b *testing.B) {
				r := newReader(b)
				b.ReportAllocs()
				for b.Loop() {
					before(r)
					if _, err := r.Thread(who.tid); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("believed", func(*Reader) {})
		run("known", func(r *Reader) {
			if k := r.known.get(int32(who.tid)); k != nil {
				k.seen -= trustFor
			}
		})
		run("stranger", func(r *Reader) {
			set := r.known.set(int32(who.tid))
			for i := range set {
				set[i].Store(nil)
			}
		})
	}
}

func BenchmarkLineage(b *testing.B) {
	pid := int32(os.Getpid())
	r := newReader(b)
	ancestors := r.Lineage(pid)
	levels := float64(len(ancestors))
	b.Run("believed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Lineage(pid)
		}
		b.ReportMetric(levels, "levels")
	})
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, a := range ancestors {
				r.known.get(a.Owner.PID).seen -= trustFor
			}
			r.known.get(pid).seen -= trustFor
			r.Lineage(pid)
		}
		b.ReportMetric(levels, "levels")
	})
}

func BenchmarkNow(b *testing.B) {
	r := newReader(b)
	b.ReportAllocs()
	for b.Loop() {
		r.Now()
	}
}

func BenchmarkOpens(b *testing.B) {
	r := newReader(b)
	pid := int32(os.Getpid())
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := r.Opens(pid, File{Ino: 1}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(mustReadDir(b, "/proc/self/fd"))), "descriptors")
}

func mustReadDir(b *testing.B, dir string) []os.DirEntry {
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	return entries
}

func BenchmarkMapsWritable(b *testing.B) {
	r := newReader(b)
	pid := int32(os.Getpid())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.MapsWritable(pid, File{Ino: 1}, File{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExit(b *testing.B) {
	r := newReader(b)
	for b.Loop() {
		r.Exit(uint32(os.Getpid()))
	}
}

func BenchmarkAlive(b *testing.B) {
	r := newReader(b)
	th, err := r.Thread(uint32(os.Getpid()))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !r.Alive(lockmgr.Owner(th.Owner)) {
			b.Fatal("not alive")
		}
	}
}

func BenchmarkPending(b *testing.B) {
	r := newReader(b)
	for b.Loop() {
		r.Pending(uint32(os.Getpid()))
	}
}

func BenchmarkDescendants(b *testing.B) {
	r := newReader(b)
	for b.Loop() {
		r.Descendants(int32(os.Getpid()))
	}
}

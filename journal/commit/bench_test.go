package commit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/tail"
)

// BenchmarkSave compares a commit of 4 KiB with what a careful program does by
// hand: temporary file, fsync, rename, fsync of the directory. All ways take
// turns, so that they meet the same disk; medians are reported, and the ratio to
// the plain way.
func BenchmarkSave(b *testing.B) {
	for name, at := range filesystems {
		b.Run(name, func(b *testing.B) {
			root, err := os.MkdirTemp(at, "bench-")
			check(b, err)
			defer os.RemoveAll(root)
			w := newWorld(b, root)
			w.s.disk.Fault = nil
			content := make([]byte, 4096)
			ways := []string{"plain", "full", "ordered", "lazy", "in-place"}
			took := map[string][]time.Duration{}
			for _, way := range ways {
				w.write(way+"/f", string(content))
			}
			var dirs []int
			for _, way := range ways {
				dirs = append(dirs, w.openDir(way))
			}
			for b.Loop() {
				for i, way := range ways {
					start := time.Now()
					if way == "plain" {
						err = plainSave(dirs[i], content)
					} else {
						err = w.save(dirs[i], way, content)
					}
					check(b, err)
					took[way] = append(took[way], time.Since(start))
				}
			}
			plain := median(took["plain"])
			for _, way := range ways {
				m := median(took[way])
				b.ReportMetric(float64(m.Microseconds()), way+"-µs")
				b.ReportMetric(float64(m)/float64(plain), way+"/plain")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// plainSave is what good programs do, with the fewest calls.
func plainSave(dir int, content []byte) error {
	fd, err := unix.Openat(dir, "tmp", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := disk.WriteAll(fd, content, 0); err != nil {
		return err
	}
	if err := unix.Fsync(fd); err != nil {
		return err
	}
	if err := unix.Renameat(dir, "tmp", dir, "f"); err != nil {
		return err
	}
	d, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(d)
	return unix.Fsync(d)
}

// save is the whole of what a session does that truncates and writes.
func (w *world) save(dir int, way string, content []byte) error {
	base, err := unix.Openat(dir, "f", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(base)
	var st unix.Stat_t
	if err := unix.Fstat(base, &st); err != nil {
		return err
	}
	v := disk.VersionOf(&st)
	sh, err := w.s.NewShadow(ShadowOptions{Dir: dir, DirPath: way, Name: "f", Base: base})
	if err != nil {
		return err
	}
	defer sh.Discard()
	if err := sh.Mark(); err != nil {
		return err
	}
	if err := disk.WriteAll(sh.FD(), content, 0); err != nil {
		return err
	}
	if dirty, err := sh.Dirty(); !dirty || err != nil {
		return fmt.Errorf("dirty %v: %w", dirty, err)
	}
	o := PublishOptions{Dir: dir, DirPath: filepath.Clean(way), Name: "f", Base: &v, Durability: Durability(way), Token: 1}
	if way == "in-place" {
		o.Durability = Full
		_, err = sh.InPlace(base, o)
	} else {
		_, err = sh.Publish(o)
	}
	return err
}

// BenchmarkShadow is what a session costs that writes nothing.
func BenchmarkShadow(b *testing.B) {
	for name, at := range filesystems {
		for _, size := range []int{4 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dK", name, size>>10), func(b *testing.B) {
				root, err := os.MkdirTemp(at, "bench-")
				check(b, err)
				defer os.RemoveAll(root)
				w := newWorld(b, root)
				w.s.disk.Fault = nil
				w.write("f", string(make([]byte, size)))
				base := openFile(b, w.path("f"), os.O_RDONLY)
				check(b, base.Sync())
				o := w.shadowOptions("f", base)
				for b.Loop() {
					sh, err := w.s.NewShadow(o)
					check(b, err)
					check(b, sh.Fill(int(base.Fd())))
					check(b, sh.Mark())
					check(b, sh.Discard())
				}
			})
		}
	}
}

// BenchmarkRecover is a start with recovery after a million changes.
func BenchmarkRecover(b *testing.B) {
	w := newWorld(b, b.TempDir())
	in := journal.Intent{Kind: journal.KindReplace, Dir: "some/where", Name: "file.json", ShadowDir: "some/where", Shadow: orphanName}
	for range 1_000_000 {
		id, err := w.j.Begin(in)
		if err == nil {
			err = w.j.Done(id)
		}
		check(b, err)
	}
	path, data := w.segment()
	for b.Loop() {
		b.StopTimer()
		w.j.Close()
		found, _ := filepath.Glob(w.path(disk.StateDirName + "/journal-*"))
		for _, name := range found {
			check(b, os.Remove(name))
		}
		check(b, os.WriteFile(path, data, 0o600))
		b.StartTimer()
		w.start()
		if _, err := w.s.Recover(); err != nil {
			b.Fatal(err)
		}
	}
}

// A record costs one more write, into the journal.
func BenchmarkAppend(b *testing.B) {
	w := newWorld(b, b.TempDir())
	w.s.disk.Fault = nil
	f := openFile(b, w.path("log"), os.O_RDWR|os.O_APPEND|os.O_CREATE)
	tail, err := w.s.Tail(tail.Options{FD: int(f.Fd()), Name: "log"})
	check(b, err)
	line := []byte(strings.Repeat("x", 80) + "\n")
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			unix.Write(int(f.Fd()), line)
		}
	})
	b.Run("record", func(b *testing.B) {
		for b.Loop() {
			if _, err := tail.Append(int(f.Fd()), line); err != nil {
				b.Fatal(err)
			}
		}
	})
}

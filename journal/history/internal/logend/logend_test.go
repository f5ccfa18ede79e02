package logend

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noted is a directory with a log of some bytes, of which the end is noted.
func noted(t *testing.T, size int) (dir *os.File, log string) {
	t.Helper()
	path := t.TempDir()
	dir, err := os.Open(path)
	ok(t, err)
	t.Cleanup(func() { dir.Close() })
	log = filepath.Join(path, "log")
	ok(t, os.WriteFile(log, bytes.Repeat([]byte("0123456789abcde\n"), size/16+1)[:size], 0o600))
	Write(dir, "log", int64(size))
	if got := Least(dir, "log"); got != int64(size) {
		t.Skipf("this filesystem does not tell when a file was made (STATX_BTIME): %d", got)
	}
	return dir, log
}

func write(t *testing.T, path string, at int64, s string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	ok(t, err)
	_, err = f.WriteAt([]byte(s), at)
	ok(t, err)
	ok(t, f.Close())
}

// A log that was cut, or has grown, still has to have the bytes that it had.
func TestCutLog(t *testing.T) {
	for _, size := range []int64{1000, 100, 16, 40000} {
		dir, log := noted(t, 1000)
		ok(t, os.Truncate(log, size))
		if got := Least(dir, "log"); got != 1000 {
			t.Errorf("of a log of now %d bytes %d have to be there", size, got)
		}
	}
}

// Nothing is known of another log, nor where the end was not noted, or cannot be read.
func TestOtherLog(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(dir *os.File, log string)
	}{
		{"removed", func(_ *os.File, log string) { ok(t, os.Remove(log)) }},
		{"without a header", func(_ *os.File, log string) { ok(t, os.Truncate(log, 15)) }},
		{"rewritten under its name", func(_ *os.File, log string) {
			b, err := os.ReadFile(log)
			ok(t, err)
			ok(t, os.WriteFile(log+".new", b, 0o600))
			ok(t, os.Rename(log+".new", log))
		}},
		{"rewritten in place", func(_ *os.File, log string) { write(t, log, 3, "x") }},
		{"with another beginning, and cut", func(_ *os.File, log string) {
			write(t, log, 20, "x")
			ok(t, os.Truncate(log, 32))
		}},
		{"open", func(dir *os.File, _ string) { Remove(dir) }},
		{"with a broken note", func(dir *os.File, _ string) { write(t, filepath.Join(dir.Name(), Name), 0, "x") }},
		{"of another size than was said", func(dir *os.File, _ string) { Write(dir, "log", 999) }},
	} {
		dir, log := noted(t, 1000)
		c.change(dir, log)
		if got := Least(dir, "log"); got != 0 {
			t.Errorf("of a log that was %s %d bytes have to be there", c.name, got)
		}
	}
}

// Only the beginning of a long log is read: what is behind it may differ.
func TestLongLog(t *testing.T) {
	dir, log := noted(t, 2*maxSummed)
	write(t, log, maxSummed+1, "x")
	if got := Least(dir, "log"); got != 2*maxSummed {
		t.Errorf("%d bytes have to be there", got)
	}
	write(t, log, maxSummed-1, "x")
	if got := Least(dir, "log"); got != 0 {
		t.Errorf("of another log %d bytes have to be there", got)
	}
}

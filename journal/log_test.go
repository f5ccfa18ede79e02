package journal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// openLog opens the log "log" of o's directory and returns it with its records.
func openLog(o *opener) (*Log, []string, error) {
	var got []string
	l, err := OpenLog(o.dir, "log", o.t.Logf, func(r []byte) error { got = append(got, string(r)); return nil })
	return l, got, err
}

func mustOpenLog(o *opener) (*Log, []string) {
	o.t.Helper()
	l, got, err := openLog(o)
	check(o.t, err)
	o.t.Cleanup(func() { l.Close() })
	return l, got
}

// someLog is a log with records of several sizes, half of it synced.
func someLog(t testing.TB) (data []byte, records []string, ends []int) {
	t.Helper()
	o := newOpener(t)
	l, _ := mustOpenLog(o)
	for i := range 12 {
		r := fmt.Sprint("record ", i, strings.Repeat("x", i*i*7))
		check(t, l.Append([]byte(r)))
		records, ends = append(records, r), append(ends, int(l.Size()))
		if i == 5 {
			check(t, l.Sync())
		}
	}
	data, err := os.ReadFile(o.path("log"))
	check(t, err)
	return data, records, ends
}

func TestLogSurvivesReopening(t *testing.T) {
	o := newOpener(t)
	var want []string
	for round := range 4 {
		l, got := mustOpenLog(o)
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: %q, want %q", round, got, want)
		}
		r := fmt.Sprint("round ", round)
		check(t, l.Append([]byte(r)))
		want = append(want, r)
		if round%2 == 0 { // else as after a crash
			check(t, l.Close())
			if err := l.Append([]byte("late")); !errors.Is(err, ErrClosed) {
				t.Errorf("append after close: %v", err)
			}
		}
	}
}

// Every prefix of a log opens with the records that it has whole, and goes on.
func TestEveryPrefixOfALogOpens(t *testing.T) {
	data, records, ends := someLog(t)
	o := newOpener(t)
	for n := range len(data) + 1 {
		check(t, os.WriteFile(o.path("log"), data[:n], 0o600))
		l, got, err := openLog(o)
		check(t, err)
		whole := 0
		for whole < len(ends) && ends[whole] <= n {
			whole++
		}
		if !slices.Equal(got, records[:whole]) {
			t.Fatalf("the first %d bytes: %q", n, got)
		}
		check(t, l.Append([]byte("more")))
		check(t, l.Close())
		if _, got := mustOpenLog(o); !slices.Equal(got, append(slices.Clone(records[:whole]), "more")) {
			t.Fatalf("the first %d bytes, gone on: %q", n, got)
		}
	}
}

// Damage that no crash explains is refused, and nothing changed: bytes that are
// other ones, anywhere, and lost ones where all was on disk once.
func TestCorruptLogIsRefused(t *testing.T) {
	data, _, ends := someLog(t)
	o := newOpener(t)
	refuse := func(at int, bad []byte) {
		t.Helper()
		check(t, os.WriteFile(o.path("log"), bad, 0o600))
		_, _, err := openLog(o)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.File != "log" {
			t.Fatalf("byte %d: %v", at, err)
		}
		if files := o.files(); len(files) != 1 || files["log"] != string(bad) {
			t.Fatalf("byte %d: the directory was changed: %d files", at, len(files))
		}
	}
	for at := range data {
		bad := slices.Clone(data)
		bad[at] ^= 0x41
		refuse(at, bad)
	}
	bad := slices.Clone(data)
	clear(bad[ends[1] : ends[1]+sectorSize])
	refuse(ends[1], bad)
	_, _, err := openLogRefusing(newOpenerWith(t, data), "record 3")
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("a record that its reader does not accept: %v", err)
	}
}

func newOpenerWith(t testing.TB, log []byte) *opener {
	o := newOpener(t)
	check(t, os.WriteFile(o.path("log"), log, 0o600))
	return o
}

func openLogRefusing(o *opener, prefix string) (*Log, []string, error) {
	l, err := OpenLog(o.dir, "log", o.t.Logf, func(r []byte) error {
		if strings.HasPrefix(string(r), prefix) {
			return errors.New("not accepted")
		}
		return nil
	})
	return l, nil, err
}

// What is appended while the log is rewritten comes behind the new records.
func TestLogRewrite(t *testing.T) {
	o := newOpener(t)
	l, _ := mustOpenLog(o)
	for range 1000 {
		check(t, l.Append([]byte("old")))
	}
	before := l.Size()
	rw, err := l.StartRewrite()
	check(t, err)
	if _, err := l.StartRewrite(); err == nil {
		t.Error("two rewrites at once")
	}
	check(t, rw.Add([]byte("kept")))
	check(t, l.Append([]byte("meanwhile")))
	check(t, rw.Commit())
	check(t, l.Append([]byte("after")))
	if l.Size() >= before/10 {
		t.Errorf("%d bytes of %d are left", l.Size(), before)
	}
	if _, got := mustOpenLog(o); !slices.Equal(got, []string{"kept", "meanwhile", "after"}) {
		t.Errorf("records %q", got)
	}
}

// A rewrite that does not end changes nothing, be it given up or cut off.
func TestUnfinishedLogRewrite(t *testing.T) {
	for _, abort := range []bool{true, false} {
		o := newOpener(t)
		l, _ := mustOpenLog(o)
		check(t, l.Append([]byte("old")))
		rw, err := l.StartRewrite()
		check(t, err)
		check(t, rw.Add([]byte("new")))
		if abort {
			rw.Abort()
			check(t, l.Append([]byte("after")))
		}
		l, got := mustOpenLog(o)
		if want := []string{"old", "after"}; !slices.Equal(got, want[:len(got)]) || len(got) < 1 {
			t.Errorf("records %q", got)
		}
		rw, err = l.StartRewrite()
		check(t, err)
		check(t, rw.Commit())
		if _, got := mustOpenLog(o); len(got) != 0 {
			t.Errorf("records %q", got)
		}
	}
}

func TestLogRecordsAreChecked(t *testing.T) {
	l, _ := mustOpenLog(newOpener(t))
	for _, r := range []string{"a\x00b", strings.Repeat("x", maxPayload+1)} {
		if l.Append([]byte(r)) == nil {
			t.Errorf("a record of %d bytes is accepted", len(r))
		}
	}
}

func BenchmarkLogAppend(b *testing.B) {
	l, _ := mustOpenLog(newOpener(b))
	r := []byte(strings.Repeat("x", 300))
	for b.Loop() {
		check(b, l.Append(r))
	}
}

// A sync that has failed is told of again, though the kernel tells it once, until the log
// is another file.
func TestLogSyncThatHasFailed(t *testing.T) {
	o := newOpener(t)
	l, _ := mustOpenLog(o)
	check(t, l.Append([]byte("perhaps lost")))
	good := l.file.File
	noDisk, other, err := os.Pipe()
	check(t, err)
	defer noDisk.Close()
	defer other.Close()
	l.file.File = noDisk
	if l.Sync() == nil {
		t.Fatal("a pipe was synced")
	}
	l.file.File = good
	if l.Sync() == nil {
		t.Error("it is taken to be on disk")
	}
	rw, err := l.StartRewrite()
	check(t, err)
	check(t, rw.Add([]byte("perhaps lost")))
	check(t, rw.Commit())
	check(t, l.Append([]byte("more")))
	check(t, l.Sync())
}

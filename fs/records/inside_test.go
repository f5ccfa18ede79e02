package records

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc"
)

func call(nr int, args ...uint64) proc.Call {
	c := proc.Call{Nr: nr}
	copy(c.Args[:], args)
	return c
}

// Which of the writes through an append descriptor are for the place that they name.
func TestIsForPlace(t *testing.T) {
	const appends = unix.O_APPEND | unix.O_WRONLY
	onStage(t, func(s *stage, _ *Appender) {
		s.calls[20] = call(unix.SYS_PWRITEV2, 0, 0, 0, 0, 0, unix.RWF_NOAPPEND)
		s.calls[21] = call(unix.SYS_PWRITEV2, 0, 0, 0, 0, 0, unix.RWF_DSYNC)
		s.calls[22] = call(unix.SYS_PWRITE64, 0, 0, 0, 0, 0, unix.RWF_NOAPPEND)
		for what, c := range map[string]struct {
			w     Write
			isEnd bool
			want  bool
		}{
			"pages":                       {Write{20, true, appends}, true, true},
			"O_APPEND was taken off":      {Write{21, false, unix.O_WRONLY}, true, true},
			"RWF_NOAPPEND":                {Write{20, false, appends}, false, true},
			"RWF_NOAPPEND at the end":     {Write{20, false, appends}, true, false},
			"pwritev2":                    {Write{21, false, appends}, false, false},
			"another call":                {Write{22, false, appends}, false, false},
			"a call that cannot be seen":  {Write{23, false, appends}, false, false},
			"a thread that nobody can be": {Write{0, false, appends}, false, false},
		} {
			if got := c.w.IsForPlace(s, func() bool { return c.isEnd }); got != c.want {
				t.Errorf("%s: %v", what, got)
			}
		}
	})
}

// The flags of a descriptor are those that it has now.
func TestAppendsAlways(t *testing.T) {
	for _, flags := range []int{os.O_WRONLY, os.O_WRONLY | os.O_APPEND} {
		f, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), flags|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendsAlways(int(f.Fd())); got != (flags&os.O_APPEND != 0) {
			t.Errorf("with flags %#x: %v", flags, got)
		}
		f.Close()
	}
	if AppendsAlways(-1) {
		t.Error("no descriptor appends")
	}
}

// Pages go to their place, and make the file no longer.
func TestStore(t *testing.T) {
	for _, c := range []struct {
		pieces []string
		at     int64
		want   string
	}{
		{[]string{"OLD"}, 0, "OLD\n"},
		{[]string{"O", "L"}, 1, "oOL\n"},
		{[]string{"D\nbehind"}, 2, "olD\n"},
		{[]string{"behind"}, 4, "old\n"},
		{[]string{"far behind"}, 4096, "old\n"},
	} {
		onStage(t, func(s *stage, a *Appender) {
			var data [][]byte
			size := 0
			for _, p := range c.pieces {
				data, size = append(data, []byte(p)), size+len(p)
			}
			if n, e := a.Store(data, c.at); e != 0 || n != size {
				t.Errorf("%q at %d: %d, errno %v", c.pieces, c.at, n, e)
			}
			s.want("log", c.want)
			s.wantTold("as opener", "store: 4 to 4 bytes", "log grows by 0")
			if !a.stored {
				t.Error("it counts as synced")
			}
		})
	}
}

// They go to the file that was opened, also when records go to its successor. Nobody is told
// then: it is not the file that has the name.
func TestStoreInAReplacedFile(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		if err := os.Link(filepath.Join(s.dir, "log"), filepath.Join(s.dir, "was")); err != nil {
			t.Fatal(err)
		}
		s.save("new\n")
		s.write(a, 10, "one\n")
		s.forget()
		a.Store([][]byte{[]byte("OLD")}, 0)
		s.want("was", "OLD\n")
		s.want("log", "new\none\n")
		s.wantTold("as opener")
	})
}

// What cannot be written is not there, and nobody is told.
func TestStoreFails(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.reopens = errDisk
		if n, e := a.Store([][]byte{[]byte("OLD")}, 0); e != unix.ENOSPC || n != 0 || a.stored {
			t.Errorf("%d, errno %v, stored %v", n, e, a.stored)
		}
		s.reopens = nil
		if n, e := a.Store([][]byte{[]byte("OLD")}, -1); e != unix.EINVAL || n != 0 || a.stored {
			t.Errorf("at -1: %d, errno %v, stored %v", n, e, a.stored)
		}
		s.want("log", "old\n")
		s.wantTold("as opener")
		if _, err := pwriteWithin(-1, nil, 0); err != unix.EBADF {
			t.Errorf("without a file: %v", err)
		}
	})
}

// Whoever may map the file may change it without a word, until the descriptor is closed; what is
// appended meanwhile is a growth of its own.
func TestMap(t *testing.T) {
	onStage(t, func(s *stage, _ *Appender) {
		a := s.appender(0)
		a.Map()
		s.wantTold()
		a.Close()
		s.wantTold()

		a = s.readWriter()
		a.Map()
		s.wantTold("maps")
		s.write(a, 10, "one\n")
		s.wantAlso("log grows by 4", 1)
		a.Drain()
		s.wantTold("log rests, open true", "1 records, 4 bytes")
		a.Close()
		s.wantTold("maps no more", "close tail")
		a.Close()
		s.wantTold()

		s.forgets = true
		a = s.readWriter()
		a.Map()
		a.Close()
		s.wantTold("maps")
	})
}

// Each beginning has one end.
func TestMapTwice(t *testing.T) {
	onStage(t, func(s *stage, _ *Appender) {
		a := s.readWriter()
		a.Map()
		a.Map()
		a.Close()
		s.wantTold("maps", "maps no more", "maps", "maps no more")
	})
}

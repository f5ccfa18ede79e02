package selftest

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// kernel walks the path of the test's file, as a good one does but for what it lacks.
type kernel struct {
	t         *Test
	walks     int  // how many there are at most; 2 of a good kernel
	noLookup  bool // the name is not looked up in the second walk
	noGetattr bool // the directory's attributes are not asked for in the second walk
}

var errStale = errors.New("stale")

func (k *kernel) open() error {
	for walk := range k.walks {
		if walk == 0 || !k.noGetattr {
			k.t.Getattr()
		}
		if walk == 0 || !k.noLookup {
			if !k.t.Lookup() {
				return errors.New("no such file")
			}
		}
		if !k.t.Open() {
			return nil
		}
	}
	return errStale
}

// A kernel that does all of it passes, and what it lacks is named.
func TestKernels(t *testing.T) {
	for _, c := range []struct {
		what string
		k    kernel
		want string
	}{
		{"a good one", kernel{walks: 2}, ""},
		{"no second walk", kernel{walks: 1}, "self-test: stale"},
		{"no second lookup", kernel{walks: 2, noLookup: true}, "no lookup in the second walk"},
		{"no getattr", kernel{walks: 2, noGetattr: true}, "no getattr in the second walk (default_permissions?)"},
		{"neither", kernel{walks: 2, noLookup: true, noGetattr: true}, "no lookup in the second walk"},
	} {
		var test Test
		c.k.t = &test
		err := test.Run(c.k.open)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "self-test: ")) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
		if got := errors.Is(err, errStale); got != (c.what == "no second walk") {
			t.Errorf("%s: %v is the error of the open: %v", c.what, err, got)
		}
	}
}

// An open that the kernel sends once, or more often than twice, fails the test.
func TestOpensAreCounted(t *testing.T) {
	for _, opens := range []int{0, 1, 2, 3} {
		var test Test
		err := test.Run(func() error {
			for range opens {
				test.Getattr()
				test.Lookup()
				if again := test.Open(); again {
					test.Getattr()
					test.Lookup()
				}
			}
			return nil
		})
		if (err == nil) != (opens == 2) {
			t.Errorf("%d opens: %v", opens, err)
		}
		if err != nil && !strings.Contains(err.Error(), "was sent") {
			t.Errorf("%d opens: %v", opens, err)
		}
	}
}

// Only the first open is answered ESTALE.
func TestFirstOpenIsRepeated(t *testing.T) {
	var test Test
	if !test.Open() || test.Open() || test.Open() {
		t.Error("it is not the first open, and that alone, that is to be repeated")
	}
}

// The file is there while the test runs. Who looks for it before or afterwards finds none,
// and what is asked for before the first open counts as nothing.
func TestFileIsThereMeanwhile(t *testing.T) {
	var test Test
	if test.Lookup() {
		t.Error("the file is there before the test")
	}
	err := test.Run(func() error {
		for range 2 {
			test.Getattr()
			if !test.Lookup() {
				t.Error("the file is not there during the test")
			}
		}
		test.Open()
		test.Open()
		return nil
	})
	if err == nil {
		t.Error("a walk before the first open counts as the second")
	}
	if test.Lookup() {
		t.Error("the file is there after the test")
	}
}

// A mount that does not answer is waited for no longer than ten seconds, nor shorter.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var test Test
		answer := make(chan error)
		began := time.Now()
		err := test.Run(func() error { return <-answer })
		if waited := time.Since(began); err == nil || !strings.Contains(err.Error(), "does not answer") || waited != 10*time.Second {
			t.Errorf("after %v: %v", waited, err)
		}
		answer <- nil // nobody has to wait for what was left behind
	})
}

// A mount that answers late, but in time, is waited for.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var test Test
		k := kernel{t: &test, walks: 2}
		err := test.Run(func() error {
			time.Sleep(9 * time.Second)
			return k.open()
		})
		if err != nil {
			t.Error(err)
		}
	})
}

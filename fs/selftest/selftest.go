// Package selftest asserts at each start what waiting and redirecting rely on: that the
// kernel, when an open is answered ESTALE,
//
//   - walks the path again and repeats the open, once;
//   - looks the name up anew in that walk;
//   - asks for the attributes of the directory on the way, which its filesystem has made
//     invalid by then. That takes the mount option default_permissions.
//
// A Test opens a file through the mount, and is told what the kernel asks for meanwhile:
//
//	Run ──▶ LOOKUP ──▶ OPEN: ESTALE ──▶ GETATTR, LOOKUP, OPEN: granted ──▶ Run judges
//
// The file is there while the test runs, and at no other time. What is opened and how the
// kernel is answered its user knows: the package does no I/O.
//
// Test.mu guards what was seen, and nobody takes another mutex while holding it.
package selftest

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Name is the file that a test opens.
const Name = ".self-test"

// timeout bounds the wait for the mount's first answer.
const timeout = 10 * time.Second

// Test is the test of one mount. The zero Test has not begun.
type Test struct {
	mu       sync.Mutex // guards what follows
	running  bool
	opens    int
	lookups  int // after the first open
	getattrs int // of the directory, after the first open
}

// Run tests the kernel, once. open opens the file through the mount and closes it; it is
// called in a goroutine of its own, which is left behind if the mount does not answer. The
// error says what the kernel has not done.
func (t *Test) Run(open func() error) error {
	t.mu.Lock()
	t.running = true
	t.mu.Unlock()
	result := make(chan error, 1)
	go func() { result <- open() }()
	select {
	case err := <-result:
		if err != nil {
			return fmt.Errorf("self-test: %w", err)
		}
	case <-time.After(timeout):
		return errors.New("self-test: the mount does not answer")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = false
	switch {
	case t.opens != 2:
		return fmt.Errorf("self-test: an open answered ESTALE was sent %d times, want 2", t.opens)
	case t.lookups == 0:
		return errors.New("self-test: no lookup in the second walk")
	case t.getattrs == 0:
		return errors.New("self-test: no getattr in the second walk (default_permissions?)")
	}
	return nil
}

// Lookup is told that the kernel looks the file up. It reports whether there is one now.
func (t *Test) Lookup() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running && t.opens > 0 {
		t.lookups++
	}
	return t.running
}

// Getattr is told that the kernel asks for the attributes of the file's directory.
func (t *Test) Getattr() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running && t.opens > 0 {
		t.getattrs++
	}
}

// Open is told that the kernel opens the file. With again the answer is ESTALE, and before
// it the attributes of the directory have to be made invalid.
func (t *Test) Open() (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opens++
	return t.opens == 1
}

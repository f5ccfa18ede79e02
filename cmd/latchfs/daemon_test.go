package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/fs"
)

// fakeMount is a mount whose sessions take a given time to finish.
type fakeMount struct {
	sessions time.Duration
	gone     chan struct{}
	once     sync.Once
	cut      bool // Shutdown did not wait for the sessions
}

func (m *fakeMount) Wait() error        { <-m.gone; return nil }
func (m *fakeMount) Mountpoint() string { return "/mnt" }
func (m *fakeMount) unmount()           { m.once.Do(func() { close(m.gone) }) }

func (m *fakeMount) Shutdown(ctx context.Context) error {
	select {
	case <-time.After(m.sessions):
	case <-ctx.Done():
		m.cut = true
	}
	m.unmount()
	return nil
}

// silent is a logger.
type silent struct{}

func (silent) Debugf(string, ...any) {}
func (silent) Infof(string, ...any)  {}
func (silent) Warnf(string, ...any)  {}
func (silent) Errorf(string, ...any) {}

// rig is a daemon on a fakeMount, with what it did.
type rig struct {
	*daemon
	fake    *fakeMount
	signals chan os.Signal
	start   time.Time
	events  []string // "1.5s: READY=1"
	mu      sync.Mutex
}

func (r *rig) event(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%v: %s", time.Since(r.start), what))
}

func newRig(sessions time.Duration) *rig {
	r := &rig{
		fake:    &fakeMount{sessions: sessions, gone: make(chan struct{})},
		signals: make(chan os.Signal, 4),
		start:   time.Now(),
	}
	r.daemon = &daemon{
		options: fs.Options{Dir: "/data", Grace: 10 * time.Second},
		mount:   func(fs.Options) (mounted, error) { r.event("mount"); return r.fake, nil },
		log:     silent{},
		signals: r.signals,
		ready:   func() error { r.event("ready"); return nil },
		notify:  r.event,
		probe:   func(context.Context, string) error { return nil },
	}
	return r
}

// end waits for the daemon and compares what it did.
func (r *rig) end(t *testing.T, result <-chan error, want ...string) {
	t.Helper()
	if err := <-result; err != nil {
		t.Errorf("the daemon failed: %v", err)
	}
	if !slices.Equal(r.events, want) {
		t.Errorf("events\n%q, want\n%q", r.events, want)
	}
}

func (r *rig) goRun() <-chan error {
	result := make(chan error, 1)
	go func() {
		err := r.run()
		r.event("end")
		result <- err
	}()
	synctest.Wait()
	return result
}

func TestDaemonUnmountedFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(0)
		result := r.goRun()
		time.Sleep(time.Minute)
		r.fake.unmount()
		r.end(t, result, "0s: mount", "0s: ready", "0s: READY=1", "1m0s: STOPPING=1", "1m0s: end")
	})
}

func TestDaemonLetsSessionsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(4 * time.Second)
		result := r.goRun()
		r.signals <- syscall.SIGTERM
		r.end(t, result, "0s: mount", "0s: ready", "0s: READY=1", "0s: STOPPING=1", "4s: end")
		if r.fake.cut {
			t.Error("a session that would have finished was cut off")
		}
	})
}

func TestDaemonGraceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(time.Hour)
		result := r.goRun()
		r.signals <- syscall.SIGTERM
		r.end(t, result, "0s: mount", "0s: ready", "0s: READY=1", "0s: STOPPING=1", "10s: end")
	})
}

func TestDaemonSecondSignalIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(time.Hour)
		result := r.goRun()
		r.signals <- syscall.SIGINT
		time.Sleep(time.Second)
		r.signals <- syscall.SIGHUP // the terminal closes too: not a second wish
		time.Sleep(time.Second)
		r.signals <- syscall.SIGINT
		r.end(t, result, "0s: mount", "0s: ready", "0s: READY=1", "0s: STOPPING=1", "2s: end")
	})
}

func TestDaemonHangup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(0)
		r.reopen = func() error { r.event("reopen"); return nil }
		result := r.goRun()
		r.signals <- syscall.SIGHUP
		synctest.Wait()
		r.fake.unmount()
		r.end(t, result, "0s: mount", "0s: ready", "0s: READY=1", "0s: reopen", "0s: STOPPING=1", "0s: end")
	})
	synctest.Test(t, func(t *testing.T) { // no log file: the terminal is gone
		r := newRig(0)
		result := r.goRun()
		r.signals <- syscall.SIGHUP
		r.end(t, result, "0s: mount", "0s: ready", "0s: READY=1", "0s: STOPPING=1", "0s: end")
	})
}

// The watchdog is fed twice in each interval, and not while the mount does not
// answer.
func TestDaemonWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(0)
		r.watchdog = 20 * time.Second
		r.probe = func(context.Context, string) error {
			switch now := time.Since(r.start); {
			case now == 20*time.Second:
				return errors.New("no")
			case now == 30*time.Second:
				r.event("hangs")
				time.Sleep(35 * time.Second)
			}
			return nil
		}
		result := r.goRun()
		time.Sleep(75 * time.Second)
		r.fake.unmount()
		r.end(t, result, "0s: mount", "0s: ready", "0s: READY=1",
			"10s: WATCHDOG=1", "30s: hangs", "1m5s: WATCHDOG=1", "1m10s: WATCHDOG=1",
			"1m15s: STOPPING=1", "1m15s: end")
	})
}

func TestDaemonCannotMount(t *testing.T) {
	r := newRig(0)
	refusal := errors.New("no")
	r.mount = func(fs.Options) (mounted, error) { return nil, refusal }
	if err := r.run(); !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
	if len(r.events) != 0 {
		t.Errorf("a daemon without a mount said %q", r.events)
	}
}

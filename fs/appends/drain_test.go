package appends

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestDrainWaits(t *testing.T) {
	onStage(t, func(s *stage) {
		s.take()
		s.write(ann, "one\ntwo")
		time.AfterFunc(3*time.Second, s.release)
		at := time.Now()
		if e := s.q.Drain(); e != 0 || time.Since(at) != 3*time.Second {
			t.Errorf("errno %v after %v", e, time.Since(at))
		}
		s.want("one\ntwo")
		s.take()
		at = time.Now()
		if e := s.q.Drain(); e != 0 || time.Since(at) != 0 {
			t.Errorf("of nothing: errno %v after %v", e, time.Since(at))
		}
		s.release()
		s.write(ann, "half")
		if e := s.q.Drain(); e != 0 || time.Since(at) != 0 {
			t.Errorf("of half a line: errno %v after %v", e, time.Since(at))
		}
		s.want("one\ntwohalf")
	})
}

// Who closes waits for the lock as long as the policy says; what could not be appended is
// kept aside, and the program hears of it at the close and at its next write.
func TestDrainGivesUp(t *testing.T) {
	onStage(t, func(s *stage) {
		s.take()
		s.write(ann, "one\ntwo")
		at := time.Now()
		var both sync.WaitGroup
		for range 2 { // two processes have the descriptor
			both.Go(func() {
				if e := s.q.Drain(); e != unix.ETIMEDOUT || time.Since(at) != wait {
					t.Errorf("errno %v after %v", e, time.Since(at))
				}
			})
		}
		both.Wait()
		s.wantKept("one\ntwo", "ETIMEDOUT: "+errGone.Error())
		s.release()
		if n, e := s.tryWrite(ann, "three\n"); n != 0 || e != unix.ETIMEDOUT {
			t.Errorf("the next write: %d, errno %v", n, e)
		}
		s.write(ann, "four\n")
		s.want("four\n")
		if e := s.q.Drain(); e != 0 {
			t.Errorf("the next close: errno %v", e)
		}
	})
}

// A write that comes when a close has given up waits as if there had been none, and the next
// close gives up, too.
func TestWriteAfterGivingUp(t *testing.T) {
	onStage(t, func(s *stage) {
		s.take()
		s.write(ann, "one\n")
		s.q.Drain()
		_, _ = s.tryWrite(ann, "") // hears of it
		s.write(ann, "two\n")
		time.Sleep(10 * wait)
		s.release()
		s.want("two\n")
		s.take()
		s.write(ann, "three\n")
		if e := s.q.Drain(); e != unix.ETIMEDOUT {
			t.Errorf("the next close: errno %v", e)
		}
	})
}

// At the end of the mount everything goes out, lock or no lock.
func TestFinish(t *testing.T) {
	onStage(t, func(s *stage) {
		s.take()
		s.write(ann, "one\ntw")
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.q.Finish()
		}()
		s.want("") // who drains goes first
		s.set(func() { s.anyhow = true })
		s.release()
		<-done
		s.want("one\ntw")

		s.write(ann, "o")
		s.take()
		s.q.Finish()
		s.want("one\ntwo")
		s.q.Finish()
	})
}

// A close that has waited long enough for one goroutine to get the lock gives nothing up for
// the next one, which has begun in that moment.
func TestPatienceIsForOneLock(t *testing.T) {
	onStage(t, func(s *stage) {
		s.take()
		s.write(ann, "one\n")
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.q.Drain()
		}()
		time.Sleep(wait - 1)
		s.q.mu.Lock()
		time.Sleep(time.Nanosecond) // the close wakes up, and waits for the mutex
		close(s.q.idle)
		s.q.idle, s.q.giveUp = make(chan struct{}), make(chan struct{})
		s.q.mu.Unlock()
		time.Sleep(wait - 1)
		synctest.Wait()
		s.q.mu.Lock()
		gaveUp := s.q.gaveUp
		s.q.mu.Unlock()
		if gaveUp {
			t.Error("the next goroutine is given up at once")
		}
		s.release()
		<-done
	})
}

package appends

import (
	"time"

	"golang.org/x/sys/unix"
)

// drainLocked starts a goroutine that appends what is due once the lock is free.
func (q *Queue) drainLocked() {
	q.busy = true
	q.idle, q.giveUp, q.gaveUp = make(chan struct{}), make(chan struct{}), false
	go q.drain(q.writer, q.giveUp)
}

func (q *Queue) drain(w Writer, giveUp <-chan struct{}) {
	unlock, err := q.c.End.Lock(w, giveUp)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.failed = q.c.End.Errno(err)
		q.c.End.Keep(q.buf[:q.due], q.failed, err.Error())
		q.dueGoneLocked()
	} else {
		q.appendDueLocked(Late)
		unlock()
	}
	q.busy = false
	close(q.idle)
}

// Drain appends everything, and waits until it is in the file or, after the End's patience,
// kept aside. It returns the error with which bytes were not appended, if no write has
// reported that; the next write reports it, too.
func (q *Queue) Drain() unix.Errno {
	q.mu.Lock()
	q.flushLocked(Late)
	for q.busy {
		idle, giveUp := q.idle, q.giveUp
		q.mu.Unlock()
		select {
		case <-idle:
		case <-time.After(q.c.End.Patience()):
			q.mu.Lock()
			if q.giveUp == giveUp && !q.gaveUp {
				q.gaveUp = true
				close(giveUp)
			}
			q.mu.Unlock()
			<-idle
		}
		q.mu.Lock()
	}
	defer q.mu.Unlock()
	return q.failed
}

// Finish appends what is still held back, without the lock: the mount has ended, and nobody
// is there to be kept out.
func (q *Queue) Finish() {
	q.mu.Lock()
	for q.busy {
		idle := q.idle
		q.mu.Unlock()
		<-idle
		q.mu.Lock()
	}
	defer q.mu.Unlock()
	q.due = len(q.buf)
	q.appendDueLocked(Late)
}

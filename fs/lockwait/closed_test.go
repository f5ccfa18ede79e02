package lockwait

import (
	"errors"
	"slices"
	"testing"
	"time"

	"latchfs/lockmgr"
)

// leaver is a demand whose holders leave when the test says so.
type leaver struct {
	*stage
	ends  []chan struct{}
	stays bool // a holder has the file open
	tries int
	takes time.Duration // a try
	right int           // the try that gets the lock; 0: none
	err   error         // of all others; nil: somebody has it

	left, goesOn func(h *lockmgr.Holder) bool
	over         func() bool
}

var errOther = errors.New("another error")

func (d *leaver) Try() (*lockmgr.Lock, error) {
	d.tries++
	time.Sleep(d.takes)
	if d.tries == d.right {
		return d.lock(lockmgr.Session), nil
	}
	if d.err != nil {
		return nil, d.err
	}
	return nil, &lockmgr.ConflictError{Holders: []lockmgr.Holder{{Token: 5}}}
}

func (d *leaver) Leaving(holders []lockmgr.Holder) (ends []<-chan struct{}, all bool) {
	if len(holders) != 1 || holders[0].Token != 5 {
		d.t.Errorf("asked about %v", holders)
	}
	for _, end := range d.ends {
		ends = append(ends, end)
	}
	return ends, !d.stays
}

func (d *leaver) MayHaveLeft(h *lockmgr.Holder) bool { return d.left(h) }

func (d *leaver) IsOver() bool { return d.over != nil && d.over() }

func (d *leaver) MayGoOn(h *lockmgr.Holder) bool { return d.goesOn(h) }

// What becomes of a try, and when.
func TestTry(t *testing.T) {
	const soon = 5 * time.Millisecond
	for name, c := range map[string]struct {
		d     leaver
		end   time.Duration // when the holders' locks end; 0: they do not
		want  error
		at    time.Duration
		tries int
	}{
		"it is free":                     {d: leaver{right: 1}, tries: 1},
		"its holder stays":               {d: leaver{stays: true, right: 2}, want: lockmgr.ErrWouldBlock, tries: 1},
		"its holder has left before":     {d: leaver{right: 2}, tries: 2},
		"its holder leaves soon":         {d: leaver{right: 3}, end: soon, at: soon, tries: 3},
		"its holder leaves for another":  {d: leaver{right: 5}, end: soon, at: soon, tries: 5},
		"its holder does not come back":  {d: leaver{}, want: lockmgr.ErrWouldBlock, at: Grace, tries: 3},
		"free when the time is over":     {d: leaver{right: 3}, at: Grace, tries: 3},
		"it is refused":                  {d: leaver{err: errOther}, want: errOther, tries: 1},
		"its end comes after the limit":  {d: leaver{right: 4}, end: time.Second, want: lockmgr.ErrWouldBlock, at: Grace, tries: 3},
		"its end comes before the limit": {d: leaver{right: 3}, end: Grace - 1, at: Grace - 1, tries: 3},
	} {
		onStage(t, func(s *stage) {
			d := c.d
			d.stage = s
			for range 2 {
				d.ends = append(d.ends, make(chan struct{}))
			}
			close(d.ends[0])
			if c.end > 0 {
				time.AfterFunc(c.end, func() { close(d.ends[1]) })
			}
			l, err := Try(&d)
			if c.want == nil && (err != nil || l == nil || !l.Held()) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			if d.tries != c.tries {
				t.Errorf("%s: %d tries, want %d", name, d.tries, c.tries)
			}
			s.after(c.at)
		})
	}
}

// Where nothing tells of an end, it is tried until the time is over.
func TestTryWithoutEnds(t *testing.T) {
	onStage(t, func(s *stage) {
		d := &leaver{stage: s, right: 1000}
		if l, err := Try(d); err != nil || !l.Held() {
			t.Error(err)
		}
		s.after(0)
		d = &leaver{stage: s, takes: time.Millisecond}
		if _, err := Try(d); !errors.Is(err, lockmgr.ErrWouldBlock) {
			t.Error(err)
		}
		if took := time.Since(s.began); took < Grace || took > Grace+4*d.takes {
			t.Errorf("it took %v", took)
		}
	})
}

// A deadlock is worth another look when one of its locks ends soon whose holder may have
// closed the file.
func TestOutlast(t *testing.T) {
	for name, c := range map[string]struct {
		err   error // nil: a deadlock with two blockers
		left  []int // which of these may have left
		goOn  []int // which may go on in another thread
		over  bool  // the program does not wait any more
		end   int   // which one's lock ends after a while; 0: none
		again bool
		at    time.Duration
	}{
		"no deadlock":                     {err: lockmgr.ErrWouldBlock, left: []int{1, 2}, end: 1},
		"nobody has left":                 {end: 1},
		"the first has":                   {left: []int{1}, end: 1, again: true, at: 5 * releasePoll},
		"the second has":                  {left: []int{2}, end: 2, again: true, at: 5 * releasePoll},
		"the wrong one has":               {left: []int{2}, end: 1, at: Grace},
		"it has not":                      {left: []int{1, 2}, at: Grace},
		"the second of both":              {left: []int{1, 2}, end: 2, again: true, at: 5 * releasePoll},
		"the time of the first one is up": {left: []int{1}, at: Grace},
		"another thread closes it":        {goOn: []int{1}, end: 1, again: true, at: 5 * releasePoll},
		"no other thread does":            {goOn: []int{2}, at: 3 * Grace},
		"one has left, the other goes on": {left: []int{1}, goOn: []int{2}, end: 1, again: true, at: 5 * releasePoll},
		"it has left, and goes on":        {left: []int{1}, goOn: []int{1}, at: 3 * Grace},
		"the program is killed":           {left: []int{1}, goOn: []int{2}, over: true},
		"neither, and the other goes on":  {left: []int{1}, goOn: []int{2}, at: 3 * Grace},
	} {
		onStage(t, func(s *stage) {
			tables, locks := map[int]*lockmgr.Table{}, map[int]*lockmgr.Lock{}
			for n := 1; n <= 2; n++ {
				s.table = lockmgr.New(lockmgr.Options{})
				tables[n], locks[n] = s.table, s.lock(lockmgr.Session)
			}
			err := c.err
			if err == nil {
				err = &lockmgr.DeadlockError{Cycle: []lockmgr.Wait{
					{Blocker: lockmgr.Holder{Token: 1, Lock: locks[1]}}, {Blocker: lockmgr.Holder{Token: 2, Lock: locks[2]}},
				}}
			}
			if l := locks[c.end]; l != nil {
				time.AfterFunc(5*releasePoll-releasePoll/2, func() { tables[c.end].Release(l) })
			}
			d := &leaver{stage: s, left: func(h *lockmgr.Holder) bool { return slices.Contains(c.left, int(h.Token)) },
				goesOn: func(h *lockmgr.Holder) bool { return slices.Contains(c.goOn, int(h.Token)) },
				over:   func() bool { return c.over }}
			if again := Outlast(err, time.Now().Add(Grace), time.Now().Add(3*Grace), d); again != c.again {
				t.Errorf("%s: worth another look: %t", name, again)
			}
			s.after(c.at)
		})
	}
}

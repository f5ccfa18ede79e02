package rejected

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/journal/commit"
)

// entries are a store that is pruned, in virtual time.
type entries struct {
	kept  chan struct{}
	began time.Time

	mu     sync.Mutex      // guards what follows
	rounds []time.Duration // when, since the begin
	limits [][2]int64
	answer func(round int) (commit.Pruned, error)
}

func (e *entries) Kept() <-chan struct{} { return e.kept }
func (e *entries) PruneRejected(now time.Time, maxBytes int64, maxAge time.Duration) (commit.Pruned, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rounds = append(e.rounds, now.Sub(e.began))
	e.limits = append(e.limits, [2]int64{maxBytes, int64(maxAge)})
	if e.answer == nil {
		return commit.Pruned{}, nil
	}
	return e.answer(len(e.rounds))
}

// pruning runs a pruner of 5 bytes and a minute. stop ends it, and waits for that.
func pruning(t *testing.T, test func(t *testing.T, e *entries, told *[]string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &entries{kept: make(chan struct{}, 1), began: time.Now()}
		var told []string
		pr := &Pruner{
			Entries: e, MaxBytes: 5, MaxAge: time.Minute,
			Removed: func(p *commit.Pruned, detail map[string]any) {
				told = append(told, fmt.Sprintf("removed %d of %d bytes, %v", len(p.IDs), p.Bytes, detail["removed"]))
			},
			Failed: func(err error) { told = append(told, err.Error()) },
		}
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			pr.Run(done)
			close(ended)
		}()
		synctest.Wait()
		test(t, e, &told)
		close(done)
		<-ended
	})
}

// answers says what the rounds from now on remove.
func (e *entries) answers(answer func(round int) (commit.Pruned, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *entries) want(t *testing.T, rounds ...time.Duration) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.rounds, rounds) {
		t.Errorf("pruned at %v, want %v", e.rounds, rounds)
	}
}

// The store is pruned at the start, when something was kept, and every hour since.
func TestPrunerRuns(t *testing.T) {
	pruning(t, func(t *testing.T, e *entries, told *[]string) {
		e.want(t, 0)
		time.Sleep(time.Minute)
		e.kept <- struct{}{}
		e.want(t, 0, time.Minute)
		time.Sleep(2*time.Hour + time.Second)
		e.want(t, 0, time.Minute, time.Hour+time.Minute, 2*time.Hour+time.Minute)
		for _, limits := range e.limits {
			if limits != [2]int64{5, int64(time.Minute)} {
				t.Errorf("the limits are %v", limits)
			}
		}
		if len(*told) != 0 {
			t.Errorf("it tells %q", *told)
		}
	})
}

// An entry that becomes too old is removed then; rounds are a second apart.
func TestPrunerAwaitsAge(t *testing.T) {
	for name, c := range map[string]struct{ again, next time.Duration }{
		"later":       {10 * time.Minute, 10 * time.Minute},
		"much later":  {3 * time.Hour, time.Hour},
		"at once":     {time.Millisecond, time.Second},
		"in the past": {-time.Hour, time.Second},
	} {
		pruning(t, func(t *testing.T, e *entries, _ *[]string) {
			again := time.Now().Add(c.again)
			e.answers(func(round int) (commit.Pruned, error) {
				if round > 2 {
					return commit.Pruned{}, nil
				}
				return commit.Pruned{Again: again}, nil
			})
			e.kept <- struct{}{}
			synctest.Wait()
			time.Sleep(c.next - time.Nanosecond)
			t.Log(name)
			e.want(t, 0, 0)
			time.Sleep(time.Nanosecond)
			e.want(t, 0, 0, c.next)
		})
	}
}

// What was removed is told, and what could not be; a round may be both.
func TestPrunerTells(t *testing.T) {
	pruning(t, func(t *testing.T, e *entries, told *[]string) {
		e.answers(func(round int) (commit.Pruned, error) {
			switch round {
			case 2:
				return commit.Pruned{IDs: []string{"a", "b"}, Bytes: 7}, nil
			case 3:
				return commit.Pruned{IDs: []string{"c"}, Bytes: 1}, errors.New("it is odd")
			}
			return commit.Pruned{}, nil
		})
		for range 3 {
			e.kept <- struct{}{}
			synctest.Wait()
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		want := []string{"removed 2 of 7 bytes, 2", "it is odd", "removed 1 of 1 bytes, 1"}
		if !slices.Equal(*told, want) {
			t.Errorf("it tells %q, want %q", *told, want)
		}
	})
}

func TestPrunedDetail(t *testing.T) {
	many := make([]string, maxPrunedIDs+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, c := range []struct {
		p    commit.Pruned
		want map[string]any
	}{
		{commit.Pruned{IDs: []string{"a"}, Bytes: 3, Aged: 1}, map[string]any{"removed": 1, "bytes": int64(3), "ids": []string{"a"}, "too_old": 1}},
		{commit.Pruned{IDs: []string{"a", "b", "c"}, Excess: 1, NoRoom: 1, Halved: 1},
			map[string]any{"removed": 3, "bytes": int64(0), "ids": []string{"a", "b", "c"}, "too_many_bytes": 1, "disk_full": 1, "half_removed": 1}},
		{commit.Pruned{IDs: many}, map[string]any{"removed": maxPrunedIDs + 1, "bytes": int64(0), "ids": many[:maxPrunedIDs]}},
	} {
		if got := detailOf(&c.p); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

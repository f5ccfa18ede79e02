package rejected

import (
	"time"

	"latchfs/journal/commit"
)

// pruneInterval is how often the age of the entries is looked at.
const pruneInterval = time.Hour

// maxPrunedIDs bounds how many of the removed entries one event names.
const maxPrunedIDs = 100

// Entries are those of the store; see commit.Store.
type Entries interface {
	PruneRejected(now time.Time, maxBytes int64, maxAge time.Duration) (commit.Pruned, error)
	Kept() <-chan struct{}
}

// Pruner keeps the store within bounds.
type Pruner struct {
	Entries  Entries
	MaxBytes int64
	MaxAge   time.Duration // 0: any age
	// Removed is told of each round that has removed something, with what an event says of it.
	Removed func(p *commit.Pruned, detail map[string]any)
	// Failed is told of a round that could not remove everything.
	Failed func(err error)
}

// Run prunes at once, whenever something was kept, when an entry becomes too old, and every
// hour. It returns when done is closed.
func (pr *Pruner) Run(done <-chan struct{}) {
	for {
		p, err := pr.Entries.PruneRejected(time.Now(), pr.MaxBytes, pr.MaxAge)
		if err != nil {
			pr.Failed(err)
		}
		if len(p.IDs) > 0 {
			pr.Removed(&p, detailOf(&p))
		}
		pause := pruneInterval
		if !p.Again.IsZero() {
			pause = min(pause, max(time.Until(p.Again), time.Second))
		}
		t := time.NewTimer(pause)
		select {
		case <-done:
			t.Stop()
			return
		case <-pr.Entries.Kept():
			t.Stop()
		case <-t.C:
		}
	}
}

// detailOf is what an event says of a round.
func detailOf(p *commit.Pruned) map[string]any {
	detail := map[string]any{
		"removed": len(p.IDs), "bytes": p.Bytes, "ids": p.IDs[:min(len(p.IDs), maxPrunedIDs)],
	}
	for why, n := range map[string]int{"too_old": p.Aged, "too_many_bytes": p.Excess, "disk_full": p.NoRoom, "half_removed": p.Halved} {
		if n > 0 {
			detail[why] = n
		}
	}
	return detail
}

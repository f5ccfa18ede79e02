package fs

import (
	"time"

	"latchfs/journal/audit"
	"latchfs/journal/commit"
)

// pruneInterval is how often the age of the kept bytes is looked at.
const pruneInterval = time.Hour

// maxPrunedIDs bounds how many of the removed entries one event names.
const maxPrunedIDs = 100

// pruneRejected keeps the store of refused bytes within the policy's bounds: at
// the start, whenever something was kept, and every hour. Each round that removes
// something is one event.
func (f *FS) pruneRejected() {
	bounds := f.policy.RejectedBounds()
	for {
		p, err := f.store.PruneRejected(time.Now(), bounds.MaxBytes, bounds.MaxAge)
		if err != nil {
			f.log.Warnf("removing old refused bytes: %v", err)
		}
		f.reportPruned(p)
		pause := pruneInterval
		if !p.Again.IsZero() {
			pause = min(pause, max(time.Until(p.Again), time.Second))
		}
		t := time.NewTimer(pause)
		select {
		case <-f.done:
			t.Stop()
			return
		case <-f.store.Kept():
			t.Stop()
		case <-t.C:
		}
	}
}

func (f *FS) reportPruned(p commit.Pruned) {
	if len(p.IDs) == 0 {
		return
	}
	f.log.Infof("%d entries removed from the refused bytes, %d bytes", len(p.IDs), p.Bytes)
	detail := map[string]any{
		"removed": len(p.IDs), "bytes": p.Bytes, "ids": p.IDs[:min(len(p.IDs), maxPrunedIDs)],
	}
	for why, n := range map[string]int{"too_old": p.Aged, "too_many_bytes": p.Excess, "disk_full": p.NoRoom, "half_removed": p.Halved} {
		if n > 0 {
			detail[why] = n
		}
	}
	f.event(audit.Event{Time: time.Now(), Event: "rejected_removed", Detail: detail})
}

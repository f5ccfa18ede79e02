package fs

import (
	"fmt"
	"maps"
	"time"

	"latchfs/fs/tally"
	"latchfs/journal/audit"
)

// told reports whether a refusal is to stand in the audit trail by itself. What does
// not is counted, and the count stands there a moment later.
func (rp *reports) told(ev *audit.Event) bool {
	kind := tally.Kind{Path: ev.Path}
	if ev.Detail == nil {
		ev.Detail = map[string]any{}
	}
	kind.UID, _ = ev.Detail["uid"].(uint32)
	kind.Operation, _ = ev.Detail["operation"].(string)
	kind.Errno, _ = ev.Detail["errno"].(string)
	now := time.Now()
	tell, due := rp.omitted.Add(now, kind, *ev)
	if !due.IsZero() {
		time.AfterFunc(due.Sub(now), func() { rp.tellOmitted(false) })
	}
	return tell
}

// tellOmitted writes how many refusals were not told one by one: of windows that are
// over, or of all.
func (rp *reports) tellOmitted(all bool) {
	for _, o := range rp.omitted.Take(time.Now(), all) {
		ev := o.Last
		if o.Count > 1 {
			ev.Detail = maps.Clone(ev.Detail)
			reason, _ := ev.Detail["reason"].(string)
			like := "like this"
			if o.Mixed {
				like = "of this user"
			}
			ev.Detail["more"], ev.Detail["reason"] = o.Count-1, fmt.Sprintf("%s (and %d more %s)", reason, o.Count-1, like)
		}
		rp.writeEvent(ev)
	}
}

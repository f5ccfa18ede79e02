package knowledge

import (
	"time"

	"latchfs/lockmgr"
)

// A process that tries again after a refusal insists, unless that was at once, as a library
// does that tries until it is let through, or so much later that nobody remembers. Whoever
// has tried for a minute, and has never waited, means it all the same.
const (
	insistAfter  = time.Second
	insistAtLast = time.Minute
	insistWithin = 10 * time.Minute
)

// insists reports whether the decider of b was refused before, and makes its change again; and
// whether somebody else was refused in its place.
func (x *file) insists(now time.Time, b *Basis) (yes, another bool) {
	r, ok := x.refused[b.By]
	yes = ok && !r.looked && r.version == b.Version && now.Sub(r.at) <= insistWithin &&
		(now.Sub(r.last) >= insistAfter || now.Sub(r.at) >= insistAtLast)
	return yes, yes && r.another
}

// Refused notes that a change by the process self was refused for what b says. Whether
// the decider waits before it insists counts from its last refusal. another says that self is
// neither the decider nor works for it, and has put in place what the decider had written: the
// decider is not told, and so does not insist.
func (t *Table) Refused(now time.Time, b *Basis, self lockmgr.Owner, another bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(b.Key)
	if e == nil {
		return
	}
	if e.barred == nil {
		e.barred = map[lockmgr.Owner]time.Time{}
	}
	e.barred[self] = now.Add(barredFor)
	if r, ok := e.refused[b.By]; ok && r.version == b.Version && now.Sub(r.at) <= insistWithin && (another || !r.another) {
		r.last, r.looked = now, false
		e.refused[b.By] = r
		return
	}
	if e.refused == nil {
		e.refused = map[lockmgr.Owner]refusal{}
	}
	e.refused[b.By] = refusal{version: b.Version, at: now, last: now, another: another}
}

// Obeyed notes that the decider has insisted and is let through: what it did not know
// it has been told of.
func (t *Table) Obeyed(now time.Time, b *Basis) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(b.Key)
	if e == nil {
		return
	}
	t.counted(b.Key, e, func() {
		delete(e.refused, b.By)
		delete(e.deaf, b.By)
		delete(e.barred, b.By)
		e.tell(b.By, !e.facts.get(b.By).own.at.IsZero(), sighting{number: e.current().Number, at: now})
	})
}

// deafFor is how long somebody learns nothing after a refusal, the first time;
// each further time in a row it is half as long.
const deafFor = 2 * time.Second

// Deafen keeps a process from learning anything of key for two seconds: it was
// refused, and what it reads next is not what it is going to write (DESIGN §6).
// Who is refused again right after that is deaf for half as long each time, so that
// a program that does read again and try again gets its turn.
func (t *Table) Deafen(now time.Time, key Key, self lockmgr.Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil {
		return
	}
	if e.deaf == nil {
		e.deaf = map[lockmgr.Owner]deafness{}
	}
	d, ok := e.deaf[self]
	if !ok || now.Sub(d.until) > fadeOfDeafness {
		d.next = deafFor
	}
	if now.Before(d.until) {
		return // it is deaf already
	}
	e.deaf[self] = deafness{until: now.Add(d.next), next: d.next / 2}
}

// fadeOfDeafness is after how long a refusal is no longer one in a row.
const fadeOfDeafness = 10 * time.Second

// Barred reports whether a process was itself refused a moment ago, so that a removal by
// it is no decision of its own but the next step of the same change.
func (t *Table) Barred(now time.Time, key Key, self lockmgr.Owner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.files[key]
	return e != nil && now.Before(e.barred[self])
}

// JustRemoved reports whether the key holds no file any more, and what is created under
// it now may be the second step of one change.
func (t *Table) JustRemoved(now time.Time, key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.files[key]
	return e != nil && e.current().Stamp == Stamp{} && now.Sub(e.current().Author.Time) <= rebirth
}

// RemovedWithout reports whether the key holds no file any more, and that was not the work
// of a process or of a descendant of it.
func (t *Table) RemovedWithout(key Key, o lockmgr.Owner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.files[key]
	return e != nil && e.current().Stamp == Stamp{} && !e.current().madeBy(o)
}

// barredFor is how long after a refusal the removal of the file belongs to the change
// that was refused.
const barredFor = 2 * time.Second

// Restored notes that the version stamp, which somebody has removed, has its name back:
// it is whose it was.
func (t *Table) Restored(key Key, stamp Stamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil {
		return
	}
	was := e.version(e.find(stamp))
	if was == nil || e.current().Stamp == stamp {
		return
	}
	t.counted(key, e, func() {
		author, owners, above := was.Author, was.owners, was.above
		e.advance(author.Time, stamp)
		last := e.current()
		last.Author, last.owners, last.above = author, owners, above
	})
}

func (x *file) isDeaf(o lockmgr.Owner, now time.Time) bool {
	d, ok := x.deaf[o]
	return ok && now.Before(d.until)
}

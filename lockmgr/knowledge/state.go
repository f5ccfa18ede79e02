package knowledge

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"latchfs/lockmgr"
)

// saved is a table as earlier releases wrote it, whole and as JSON. It is read once more.
type saved struct {
	Format int         `json:"format"`
	Boot   string      `json:"boot"`
	Files  []savedFile `json:"files"`
}

type savedFile struct {
	Key     []byte        `json:"key"` // in base64: a file's name may be any bytes
	Changes []savedChange `json:"changes"`
	Facts   []savedFact   `json:"facts,omitempty"`
}

type savedChange struct {
	Number uint64          `json:"number"`
	Stamp  Stamp           `json:"stamp"`
	Author Author          `json:"author"`
	Owners []lockmgr.Owner `json:"owners,omitempty"`
	Above  []lockmgr.Owner `json:"above,omitempty"`
	Added  bool            `json:"added,omitempty"`
}

type savedFact struct {
	Owner lockmgr.Owner  `json:"owner"`
	Own   *savedSighting `json:"own,omitempty"`
	Lent  *savedSighting `json:"lent,omitempty"`
}

type savedSighting struct {
	Number  uint64    `json:"number"`
	Through uint64    `json:"through,omitempty"`
	At      time.Time `json:"at"`
	Made    bool      `json:"made,omitempty"`
}

// format is the last that was written as JSON.
const format = 3

// ErrFormat says that a saved table cannot be read.
var ErrFormat = errors.New("not a saved table of read versions")

func (s *savedSighting) load() sighting {
	if s == nil {
		return sighting{}
	}
	return sighting{s.Number, s.Through, s.At, s.Made}
}

// Load adds what an earlier release has saved to an empty table. Of another boot nothing
// is taken. On an error, which wraps ErrFormat, the table stays empty.
func (t *Table) Load(data []byte, boot string) error {
	var s saved
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if s.Format != format {
		return fmt.Errorf("%w: format %d", ErrFormat, s.Format)
	}
	files := map[Key]*entry{}
	for i := range s.Files {
		f := &s.Files[i]
		x := f.load()
		if files[Key(f.Key)] != nil || !x.isSound() {
			return fmt.Errorf("%w: %q", ErrFormat, f.Key)
		}
		files[Key(f.Key)] = &entry{file: x}
	}
	if s.Boot != boot {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files = files
	for key, e := range files {
		t.count(key, e)
		t.unsaved[key] = false
	}
	return nil
}

// isSound reports whether the numbers fit together.
func (x *file) isSound() bool {
	if n := len(x.changes); n == 0 || n > remembered {
		return false
	}
	for i := 1; i < len(x.changes); i++ {
		if x.changes[i].Number != x.changes[i-1].Number+1 {
			return false
		}
	}
	last := x.current().Number
	for _, k := range x.facts.all() {
		if k.own.through > last || k.lent.through > last || k.own.number > k.own.through || k.lent.number > k.lent.through {
			return false
		}
	}
	return true
}

func (f *savedFile) load() *file {
	x := &file{}
	for _, c := range f.Changes {
		c.Author.Actor = "" // whose label it is was not saved
		x.changes = append(x.changes, Change{c.Number, c.Stamp, c.Author, c.Owners, c.Above, c.Added})
	}
	for _, k := range f.Facts {
		x.facts.put(k.Owner, fact{own: k.Own.load(), lent: k.Lent.load()})
	}
	return x
}

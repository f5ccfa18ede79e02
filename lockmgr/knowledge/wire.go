package knowledge

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"time"

	"latchfs/lockmgr"
)

// A record says what is known of some keys. It holds in a row, with integers as
// varints (encoding/binary) and lengths before strings:
//
//	format, life                            recordFormat, and of which life of the machine it is
//	for each key, until the end:
//	  shared, rest                          how many bytes it shares with the key before, and the others
//	  what                                  forgotten, known or more
//	  known:  count, number                 of its versions, and which the first of them is
//	    for each version:
//	      flags                             added, timed, and authored
//	      dev, ino, size, mtime             each as the difference to the version before in the record
//	      time                              if timed, as the difference to the last time in the record
//	      author, owners, above             if authored
//	  known and more:  count, of its facts
//	    for each fact:
//	      owner
//	      flags                             own, own made, lent, lent made
//	      number, through, at               of each that is there: number up from 0, through up from number
//
// An author, an owner and a list of owners are told by a number: what has come up in the
// record before has one, and what has the next number follows it. So what one process
// has done to many files names the process once, and each record can be read alone.
const recordFormat = 2

// What a record says of a key.
const (
	forgotten = iota // nothing is known of it
	known            // what was said of it before counts no more
	more             // it is known besides
)

const (
	flagAdded = 1 << iota
	flagTimed
	flagAuthored
)

const (
	flagOwn = 1 << iota
	flagOwnMade
	flagLent
	flagLentMade
)

var (
	errRecord = errors.New("a record that is too short, or too long")
	errOrder  = errors.New("a record whose numbers do not fit together")
)

// signature is an author without the time.
type signature struct {
	pid                       int32
	uid                       uint32
	program, actor, operation string
}

func (a *Author) signature() signature {
	return signature{a.PID, a.UID, a.Program, a.Actor, a.Operation}
}

// words numbers what comes up in a record, in the order in which it does.
type words struct {
	signatures map[signature]uint64
	owners     map[lockmgr.Owner]uint64
	lists      map[string]uint64
}

// encoder writes one record.
type encoder struct {
	b       []byte
	words   words
	key     Key
	stamp   Stamp
	time    int64
	listing []byte
	started bool // it says something of a key
}

func newEncoder(boot string) *encoder {
	e := &encoder{words: words{map[signature]uint64{}, map[lockmgr.Owner]uint64{}, map[string]uint64{}}}
	e.uint(recordFormat)
	e.uint(life(boot))
	return e
}

// life is a number for a life of the machine.
func life(boot string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(boot)) // it returns no error
	return h.Sum64()
}

func (e *encoder) uint(n uint64) { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) int(n int64)   { e.b = binary.AppendVarint(e.b, n) }

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

// begin writes the key, and what follows.
func (e *encoder) begin(key Key, what uint64) {
	n := 0
	for n < len(key) && n < len(e.key) && key[n] == e.key[n] {
		n++
	}
	e.uint(uint64(n))
	e.string(string(key[n:]))
	e.uint(what)
	e.key, e.started = key, true
}

func (e *encoder) moment(t time.Time) {
	n := t.UnixNano()
	e.int(n - e.time)
	e.time = n
}

func (e *encoder) change(c *Change) {
	flags := uint64(0)
	if c.added {
		flags |= flagAdded
	}
	if !c.Author.Time.IsZero() {
		flags |= flagTimed
	}
	authored := c.Author.signature() != (signature{}) || len(c.owners) > 0 || len(c.above) > 0
	if authored {
		flags |= flagAuthored
	}
	e.uint(flags)
	e.int(int64(c.Stamp.Dev - e.stamp.Dev))
	e.int(int64(c.Stamp.Ino - e.stamp.Ino))
	e.int(c.Stamp.Size - e.stamp.Size)
	e.int(c.Stamp.Mtime - e.stamp.Mtime)
	e.stamp = c.Stamp
	if flags&flagTimed != 0 {
		e.moment(c.Author.Time)
	}
	if authored {
		e.author(c.Author.signature())
		e.list(c.owners)
		e.list(c.above)
	}
}

func (e *encoder) author(s signature) {
	n, ok := e.words.signatures[s]
	if !ok {
		n = uint64(len(e.words.signatures))
		e.words.signatures[s] = n
	}
	e.uint(n)
	if !ok {
		e.int(int64(s.pid))
		e.uint(uint64(s.uid))
		e.string(s.program)
		e.string(s.actor)
		e.string(s.operation)
	}
}

func (e *encoder) owner(o lockmgr.Owner) {
	n, ok := e.words.owners[o]
	if !ok {
		n = uint64(len(e.words.owners))
		e.words.owners[o] = n
	}
	e.uint(n)
	if !ok {
		e.int(int64(o.PID))
		e.uint(o.Start)
	}
}

func (e *encoder) list(owners []lockmgr.Owner) {
	e.listing = e.listing[:0]
	for _, o := range owners {
		e.listing = binary.AppendVarint(e.listing, int64(o.PID))
		e.listing = binary.AppendUvarint(e.listing, o.Start)
	}
	n, ok := e.words.lists[string(e.listing)]
	if !ok {
		n = uint64(len(e.words.lists))
		e.words.lists[string(e.listing)] = n
	}
	e.uint(n)
	if !ok {
		e.uint(uint64(len(owners)))
		for _, o := range owners {
			e.owner(o)
		}
	}
}

func (e *encoder) fact(o lockmgr.Owner, k fact) {
	e.owner(o)
	flags := uint64(0)
	flag := func(on bool, bit uint64) {
		if on {
			flags |= bit
		}
	}
	flag(!k.own.at.IsZero(), flagOwn)
	flag(k.own.made, flagOwnMade)
	flag(!k.lent.at.IsZero(), flagLent)
	flag(k.lent.made, flagLentMade)
	e.uint(flags)
	for _, s := range []sighting{k.own, k.lent} {
		if !s.at.IsZero() {
			e.uint(s.number)
			e.uint(s.through - s.number)
			e.moment(s.at)
		}
	}
}

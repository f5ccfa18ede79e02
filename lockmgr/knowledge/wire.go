package knowledge

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
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

// decoder reads one record. What it says after an error means nothing.
type decoder struct {
	b          []byte
	err        error
	signatures []signature
	owners     []lockmgr.Owner
	lists      [][]lockmgr.Owner
	key        Key
	stamp      Stamp
	time       int64
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.fail(errRecord)
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.fail(errRecord)
		return 0
	}
	d.b = d.b[size:]
	return n
}

// count reads how many things follow, each of which takes a byte at least.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail(errRecord)
		return 0
	}
	return int(n)
}

func (d *decoder) string() string {
	n := d.count()
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// begin reads a key, and what follows.
func (d *decoder) begin() (Key, uint64) {
	shared, rest := d.uint(), d.string()
	if shared > uint64(len(d.key)) {
		d.fail(errOrder)
		return "", 0
	}
	d.key = d.key[:shared] + Key(rest)
	return d.key, d.uint()
}

func (d *decoder) moment() time.Time {
	d.time += d.int()
	return time.Unix(0, d.time)
}

func (d *decoder) change(number uint64) Change {
	flags := d.uint()
	if flags >= flagAuthored<<1 {
		d.fail(errOrder)
	}
	d.stamp.Dev += uint64(d.int())
	d.stamp.Ino += uint64(d.int())
	d.stamp.Size += d.int()
	d.stamp.Mtime += d.int()
	c := Change{Number: number, Stamp: d.stamp, added: flags&flagAdded != 0}
	var at time.Time
	if flags&flagTimed != 0 {
		at = d.moment()
	}
	if flags&flagAuthored != 0 {
		s := d.author()
		c.Author = Author{PID: s.pid, UID: s.uid, Program: s.program, Actor: s.actor, Operation: s.operation}
		c.owners, c.above = d.list(), d.list()
	}
	c.Author.Time = at
	return c
}

func (d *decoder) pid() int32 {
	n := d.int()
	if n != int64(int32(n)) {
		d.fail(errOrder)
	}
	return int32(n)
}

func (d *decoder) uid() uint32 {
	n := d.uint()
	if n > math.MaxUint32 {
		d.fail(errOrder)
	}
	return uint32(n)
}

func (d *decoder) author() signature {
	n := d.uint()
	switch {
	case n < uint64(len(d.signatures)):
		return d.signatures[n]
	case n > uint64(len(d.signatures)):
		d.fail(errOrder)
		return signature{}
	}
	s := signature{d.pid(), d.uid(), d.string(), d.string(), d.string()}
	d.signatures = append(d.signatures, s)
	return s
}

func (d *decoder) owner() lockmgr.Owner {
	n := d.uint()
	switch {
	case n < uint64(len(d.owners)):
		return d.owners[n]
	case n > uint64(len(d.owners)):
		d.fail(errOrder)
		return lockmgr.Owner{}
	}
	o := lockmgr.Owner{PID: d.pid(), Start: d.uint()}
	d.owners = append(d.owners, o)
	return o
}

func (d *decoder) list() []lockmgr.Owner {
	n := d.uint()
	switch {
	case n < uint64(len(d.lists)):
		return d.lists[n]
	case n > uint64(len(d.lists)):
		d.fail(errOrder)
		return nil
	}
	var list []lockmgr.Owner
	for range d.count() {
		list = append(list, d.owner())
	}
	d.lists = append(d.lists, list)
	return list
}

func (d *decoder) fact() (lockmgr.Owner, fact) {
	o, flags := d.owner(), d.uint()
	if flags >= flagLentMade<<1 || flags&(flagOwn|flagLent) == 0 {
		d.fail(errOrder)
	}
	var k fact
	if flags&flagOwn != 0 {
		k.own = d.sighting(flags&flagOwnMade != 0)
	}
	if flags&flagLent != 0 {
		k.lent = d.sighting(flags&flagLentMade != 0)
	}
	return o, k
}

func (d *decoder) sighting(made bool) sighting {
	number, further := d.uint(), d.uint()
	if further > math.MaxUint64-number {
		d.fail(errOrder)
	}
	return sighting{number: number, through: number + further, at: d.moment(), made: made}
}

// changes reads the versions of a key.
func (d *decoder) changes() []Change {
	n, first := d.count(), d.uint()
	if n == 0 || n > remembered || first > math.MaxUint64-remembered {
		d.fail(errOrder)
		return nil
	}
	list := make([]Change, 0, n)
	for i := range n {
		list = append(list, d.change(first+uint64(i)))
	}
	return list
}

// facts reads who knows what of a key whose current version is the last.
func (d *decoder) facts(last uint64) *facts {
	n := d.count()
	if n > factsAtOnce {
		d.fail(errOrder)
		n = 0
	}
	var list facts
	list.few = make([]ownFact, 0, min(n, fewFacts))
	for range n {
		o, k := d.fact()
		if k.own.through > last || k.lent.through > last {
			d.fail(errOrder)
		}
		if d.err != nil {
			break
		}
		list.put(o, k)
	}
	return &list
}

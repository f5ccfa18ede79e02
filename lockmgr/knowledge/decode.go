package knowledge

import (
	"encoding/binary"
	"math"
	"time"

	"latchfs/lockmgr"
)

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

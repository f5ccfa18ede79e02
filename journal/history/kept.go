package history

import (
	"time"

	"latchfs/journal/history/internal/arena"
)

// kept is what is known of a content that is kept.
type kept struct {
	content  uint32
	user     uint32 // in whose share it counts
	ino      uint64 // its inode in the history
	since    int64  // when it was kept, in ns
	blocks   uint32 // on disk, of 512 bytes
	uid, gid uint32 // whose it is; its own rights count once the file has no other place
	mode     uint16
	acl      bool
	reach    offset // where the record is that says who could reach it, 0 if none does
	age      links  // among all
	mine     links  // among the user's
}

// links make a value part of a queue.
type links struct{ prev, next uint32 }

func (k *kept) inAge() *links  { return &k.age }
func (k *kept) ofUser() *links { return &k.mine }

// weight is how many bytes it has on disk.
func (k *kept) weight() int64 { return int64(k.blocks) * 512 }

func (k *kept) rights() Rights {
	return Rights{UID: k.uid, GID: k.gid, Mode: uint32(k.mode), ACL: k.acl}
}

func (k *kept) isOlder(than time.Time) bool { return time.Unix(0, k.since).Before(than) }

// queue is kept contents in their order.
type queue struct{ first, last uint32 }

func (q *queue) push(a *arena.Arena[kept], i uint32, of func(*kept) *links) {
	*of(a.At(i)) = links{prev: q.last}
	if q.last != 0 {
		of(a.At(q.last)).next = i
	} else {
		q.first = i
	}
	q.last = i
}

func (q *queue) remove(a *arena.Arena[kept], i uint32, of func(*kept) *links) {
	l := *of(a.At(i))
	if l.prev != 0 {
		of(a.At(l.prev)).next = l.next
	} else {
		q.first = l.next
	}
	if l.next != 0 {
		of(a.At(l.next)).prev = l.prev
	} else {
		q.last = l.prev
	}
}

// garbage is the file of a content that was dropped.
type garbage struct {
	id     [idSize]byte
	weight int64
	stuck  bool // it could not be removed, and that was told
}

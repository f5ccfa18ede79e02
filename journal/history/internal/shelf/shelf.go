// Package shelf is what is known of the contents that are kept: since when, how heavy they are,
// which inodes they are, and in whose share they count. So it says which of them goes when there
// is too much: the oldest of the user who has most.
//
// A Shelf does no I/O and has no mutex: its user guards it. The zero value is empty and ready.
package shelf

import (
	"iter"
	"slices"
	"time"

	"latchfs/journal/history/internal/arena"
)

// Item is what is known of a content that is kept.
type Item struct {
	Content  uint32 // its number, which means nothing here
	User     uint32 // in whose share it counts
	Ino      uint64
	Since    int64        // when it was kept, in ns since the epoch
	Blocks   uint32       // on disk, of 512 bytes
	UID, GID uint32       // whose it is; its own rights count once the file has no other place
	Mode     uint16       // permission bits
	ACL      bool         // there is one
	Reach    arena.Offset // where the record is that says who could reach it, 0 if none does

	age  links // among all
	mine links // among the user's
}

// Weight is how many bytes it has on disk.
func (i *Item) Weight() int64 { return int64(i.Blocks) * 512 }

// IsOlder reports whether it was kept before a moment.
func (i *Item) IsOlder(than time.Time) bool { return time.Unix(0, i.Since).Before(than) }

// Shelf is the contents that are kept, by number; 0 is none.
type Shelf struct {
	items arena.Arena[Item]
	all   queue       // oldest first
	inos  arena.Table // finds them by their inodes
	users map[uint32]*share
	bytes int64
}

// share is what one user has.
type share struct {
	bytes int64
	queue queue // oldest first
}

// Bytes is the weight of all.
func (s *Shelf) Bytes() int64 { return s.bytes }

// At is what is known of a content with a number that Add has given.
func (s *Shelf) At(i uint32) *Item { return s.items.At(i) }

// Size is the highest number that was ever given. At numbers that were dropped there are zero
// values.
func (s *Shelf) Size() uint32 { return s.items.Size() }

// Snapshot is a copy of what is known of each, by number. It has no order.
func (s *Shelf) Snapshot() Shelf { return Shelf{items: s.items.Clone()} }

// Add enters a content, as the youngest.
func (s *Shelf) Add(it Item) uint32 {
	i := s.items.Add(it)
	s.all.push(&s.items, i, (*Item).inAge)
	s.inos.Add(i, s.hash)
	s.bytes += it.Weight()
	if s.users == nil {
		s.users = map[uint32]*share{}
	}
	u := s.users[it.User]
	if u == nil {
		u = &share{}
		s.users[it.User] = u
	}
	u.bytes += it.Weight()
	u.queue.push(&s.items, i, (*Item).ofUser)
	return i
}

// Drop gives a content up. Its number may be given anew.
func (s *Shelf) Drop(i uint32) {
	it := s.items.At(i)
	s.bytes -= it.Weight()
	u := s.users[it.User]
	u.bytes -= it.Weight()
	u.queue.remove(&s.items, i, (*Item).ofUser)
	if u.queue.first == 0 {
		delete(s.users, it.User)
	}
	s.all.remove(&s.items, i, (*Item).inAge)
	s.inos.Remove(i, s.hash)
	s.items.Drop(i)
}

// OfInode is the content that is an inode, 0 if none is: the last one that was entered.
func (s *Shelf) OfInode(ino uint64) uint32 {
	return s.inos.Find(hashOf(ino), func(i uint32) bool { return s.items.At(i).Ino == ino })
}

// Renew notes that another inode is a content.
func (s *Shelf) Renew(i uint32, ino uint64) {
	s.inos.Remove(i, s.hash)
	s.items.At(i).Ino = ino
	s.inos.Add(i, s.hash)
}

func (s *Shelf) hash(i uint32) uint32 { return hashOf(s.items.At(i).Ino) }

func hashOf(ino uint64) uint32 { return uint32(ino * 0x9e3779b97f4a7c15 >> 32) }

// OldestFirst are all contents. One may be dropped when it is its turn.
func (s *Shelf) OldestFirst() iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		for i := s.all.first; i != 0; {
			it := s.items.At(i)
			next := it.age.next
			if !yield(it) {
				return
			}
			i = next
		}
	}
}

// Sort puts all contents, which were entered in any order, into theirs.
func (s *Shelf) Sort(compare func(a, b *Item) int) {
	var all []uint32
	for i := s.all.first; i != 0; i = s.items.At(i).age.next {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b uint32) int { return compare(s.items.At(a), s.items.At(b)) })
	s.all = queue{}
	for _, u := range s.users {
		u.queue = queue{}
	}
	for _, i := range all {
		s.all.push(&s.items, i, (*Item).inAge)
		s.users[s.items.At(i).User].queue.push(&s.items, i, (*Item).ofUser)
	}
}

// OfHeaviest is the oldest content of the user who has most, nil if there is none but those that
// stay.
func (s *Shelf) OfHeaviest(stays func(*Item) bool) *Item {
	var heaviest uint32
	var most *share
	for uid, u := range s.users {
		if most == nil || u.bytes > most.bytes || u.bytes == most.bytes && uid < heaviest {
			heaviest, most = uid, u
		}
	}
	if most == nil {
		return nil
	}
	for i := most.queue.first; i != 0; i = s.items.At(i).mine.next {
		if it := s.items.At(i); !stays(it) {
			return it
		}
	}
	return nil
}

// Oldest is OfHeaviest for whoever needs the space: where nothing may go of the user who has most
// it is another's.
func (s *Shelf) Oldest(stays func(*Item) bool) *Item {
	if it := s.OfHeaviest(stays); it != nil {
		return it
	}
	for it := range s.OldestFirst() {
		if !stays(it) {
			return it
		}
	}
	return nil
}

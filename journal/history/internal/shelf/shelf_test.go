package shelf

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is a shelf as a list, oldest first.
type model struct {
	s    Shelf
	list []modelItem
	last uint32 // content
}

type modelItem struct {
	number uint32
	Item
}

func (m *model) stays(it *Item) bool { return it.Content%3 == 0 }

// add draws few inodes: several contents may be the same one, as far as the shelf knows.
func (m *model) add(t *rapid.T) {
	m.last++
	it := Item{
		Content: m.last, User: rapid.Uint32Range(1, 3).Draw(t, "user"), Ino: rapid.Uint64Range(1, 20).Draw(t, "ino"),
		Since: rapid.Int64Range(1, 5).Draw(t, "since"), Blocks: rapid.Uint32Range(0, 9).Draw(t, "blocks"),
	}
	m.list = append(m.list, modelItem{m.s.Add(it), it})
}

func (m *model) draw(t *rapid.T) int {
	if len(m.list) == 0 {
		t.Skip("nothing is kept")
	}
	return rapid.IntRange(0, len(m.list)-1).Draw(t, "which")
}

func (m *model) drop(t *rapid.T) {
	i := m.draw(t)
	m.s.Drop(m.list[i].number)
	m.list = slices.Delete(m.list, i, i+1)
}

// dropOnTheWay drops some while all are looked at.
func (m *model) dropOnTheWay(t *rapid.T) {
	odd := rapid.Uint32Range(0, 1).Draw(t, "odd")
	i := 0
	for it := range m.s.OldestFirst() {
		if it.Content != m.list[i].Content {
			t.Fatalf("content %d comes where %d should", it.Content, m.list[i].Content)
		}
		if it.Content%2 != odd {
			i++
			continue
		}
		m.s.Drop(m.list[i].number)
		m.list = slices.Delete(m.list, i, i+1)
	}
}

func (m *model) renew(t *rapid.T) {
	i := m.draw(t)
	m.list[i].Ino = rapid.Uint64Range(1, 20).Draw(t, "ino")
	m.s.Renew(m.list[i].number, m.list[i].Ino)
}

func (m *model) sort(*rapid.T) {
	bySince := func(a, b *Item) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Content, b.Content))
	}
	m.s.Sort(bySince)
	slices.SortFunc(m.list, func(a, b modelItem) int { return bySince(&a.Item, &b.Item) })
}

// heaviest is the user who has most; of several the one with the smallest number.
func (m *model) heaviest() (user uint32) {
	bytes := map[uint32]int64{}
	for i := range m.list {
		bytes[m.list[i].User] += m.list[i].Weight()
	}
	for u, n := range bytes {
		if user == 0 || n > bytes[user] || n == bytes[user] && u < user {
			user = u
		}
	}
	return user
}

// first is the content of the first in the list that may go.
func (m *model) first(of func(*Item) bool) uint32 {
	for i := range m.list {
		if it := &m.list[i].Item; of(it) && !m.stays(it) {
			return it.Content
		}
	}
	return 0
}

func contentOf(it *Item) uint32 {
	if it == nil {
		return 0
	}
	return it.Content
}

func (m *model) check(t *rapid.T) {
	var bytes int64
	var want, got []uint32
	for i := range m.list {
		bytes += m.list[i].Weight()
		want = append(want, m.list[i].Content)
		if at := m.s.At(m.list[i].number); at.Content != m.list[i].Content || at.Ino != m.list[i].Ino {
			t.Fatalf("number %d is content %d, inode %d", m.list[i].number, at.Content, at.Ino)
		}
	}
	for it := range m.s.OldestFirst() {
		got = append(got, it.Content)
	}
	if !slices.Equal(got, want) || bytes != m.s.Bytes() {
		t.Fatalf("contents %v of %d bytes, want %v of %d", got, m.s.Bytes(), want, bytes)
	}
	user := m.heaviest()
	heavy := m.first(func(it *Item) bool { return it.User == user })
	if got := contentOf(m.s.OfHeaviest(m.stays)); got != heavy {
		t.Fatalf("of the heaviest user content %d goes, want %d", got, heavy)
	}
	if got, want := contentOf(m.s.Oldest(m.stays)), cmp.Or(heavy, m.first(func(*Item) bool { return true })); got != want {
		t.Fatalf("content %d goes, want %d", got, want)
	}
	for ino := uint64(1); ino <= 21; ino++ {
		n, is := m.s.OfInode(ino), slices.ContainsFunc(m.list, func(k modelItem) bool { return k.Ino == ino })
		if (n != 0) != is || is && m.s.At(n).Ino != ino {
			t.Fatalf("inode %d is number %d", ino, n)
		}
	}
}

func TestShelf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{}
		t.Repeat(map[string]func(*rapid.T){
			"add": m.add, "drop": m.drop, "drop on the way": m.dropOnTheWay, "renew": m.renew, "sort": m.sort, "": m.check,
		})
	})
}

// A snapshot keeps what there was.
func TestSnapshot(t *testing.T) {
	var s Shelf
	i := s.Add(Item{Content: 7, Ino: 1})
	was := s.Snapshot()
	s.Drop(i)
	if j := s.Add(Item{Content: 8}); j != i {
		t.Fatalf("number %d was not given anew", i)
	}
	if got := was.At(i).Content; got != 7 || was.Size() != s.Size() {
		t.Errorf("the snapshot has content %d and size %d", got, was.Size())
	}
}

package knowledge

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"latchfs/lockmgr"
)

// event is what the model remembers, all of it: which version a process saw or made.
type event struct {
	at   time.Time
	key  Key
	num  int
	self int
	kin  []int
}

// model answers by looking through everything that has happened.
type model struct {
	events  []event
	nums    map[Key]int
	authors map[Key]map[int][]int // of each version: its author with all ancestors
}

// knows is the newest version that a process has learned of, itself or through a
// descendant whose look has not faded.
func (m *model) knows(o int, key Key, now time.Time) (num int, known bool) {
	for i := range m.events {
		e := &m.events[i]
		if e.key != key || e.self != o && (!slices.Contains(e.kin, o) || now.Sub(e.at) > fade) {
			continue
		}
		num, known = max(num, e.num), true
	}
	return num, known
}

func (m *model) stale(chain []int, key Key, now time.Time) bool {
	for _, o := range chain {
		num, ok := m.knows(o, key, now)
		if !ok {
			continue
		}
		for n := num + 1; n <= m.nums[key]; n++ {
			if !slices.Contains(m.authors[key][n], o) {
				return true
			}
		}
		return false
	}
	return false
}

// Everybody who writes has read before; then the table says what a look through all
// that ever happened says.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parents := map[int]int{3: 1, 4: 1, 5: 2, 6: 3, 7: 3, 8: 6, 9: 8, 10: 9}
		ancestors := func(p int) []int {
			var up []int
			for p = parents[p]; p != 0; p = parents[p] {
				up = append(up, p)
			}
			return up
		}
		family := func(p int) []int {
			up := ancestors(p)
			return up[:min(3, len(up))]
		}
		owner := func(p int) lockmgr.Owner { return lockmgr.Owner{PID: int32(p), Start: 7} }
		who := func(p int) Who {
			w := Who{Self: owner(p)}
			for i, k := range ancestors(p) {
				if i < 3 {
					w.Relatives = append(w.Relatives, owner(k))
				} else {
					w.Above = append(w.Above, owner(k))
				}
			}
			return w
		}
		table, m := New(fade), &model{nums: map[Key]int{}, authors: map[Key]map[int][]int{"f": {}, "g": {}}}
		stamps := map[Key]Stamp{"f": {Ino: 1}, "g": {Ino: 2}}
		now, ino := time.Unix(1, 0), uint64(2)
		saw := func(p int, key Key) {
			if !table.Saw(now, key, stamps[key], who(p)) {
				table.Found(now, key, stamps[key])
				table.Saw(now, key, stamps[key], who(p))
			}
			m.events = append(m.events, event{now, key, m.nums[key], p, family(p)})
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
			p := rapid.IntRange(1, 10).Draw(t, "process")
			key := rapid.SampledFrom([]Key{"f", "g"}).Draw(t, "key")
			switch rapid.SampledFrom([]string{"read", "write", "append", "around", "touch", "sweep", "restart"}).Draw(t, "what") {
			case "read":
				saw(p, key)
			case "write":
				saw(p, key)
				ino++
				stamps[key] = Stamp{Ino: ino}
				m.nums[key]++
				m.authors[key][m.nums[key]] = append(ancestors(p), p)
				table.Changed(now, key, stamps[key], who(p), Author{})
				m.events = append(m.events, event{now, key, m.nums[key], p, family(p)})
			case "append": // without a look: it is an author and learns nothing
				table.Found(now, key, stamps[key])
				before, after := stamps[key], stamps[key]
				after.Size++
				stamps[key] = after
				m.nums[key]++
				m.authors[key][m.nums[key]] = append(ancestors(p), p)
				table.Added(now, key, before, after, who(p), Author{})
			case "around":
				ino++
				stamps[key] = Stamp{Ino: ino}
				m.nums[key]++
			case "touch":
				table.Found(now, key, stamps[key])
				before, after := stamps[key], stamps[key]
				after.Mtime++
				stamps[key] = after
				table.Restamp(key, before, after)
			case "sweep":
				table.Sweep(now, func(lockmgr.Owner) bool { return true })
			case "restart":
				table = restarted(t, table, "x", "x")
			}
			asks := rapid.IntRange(1, 10).Draw(t, "asks")
			want := m.stale(append([]int{asks}, family(asks)...), key, now)
			if got := table.Check(now, key, stamps[key], who(asks).chain(), fade, Readers); got.Stale != want {
				t.Fatalf("process %d, %q: stale %v, want %v: %+v", asks, key, got.Stale, want, got)
			}
		}
	})
}

// Who reads everything takes nothing from who has read one file, and a file that
// everybody reads nothing from the others.
func TestBounded(t *testing.T) {
	for _, tt := range []struct {
		name string
		read func(i int) (Key, int32)
	}{
		{"one reads many", func(i int) (Key, int32) { return Key(fmt.Sprint(i)), 1 }},
		{"many read one", func(i int) (Key, int32) { return "hot", int32(i + 10) }},
		{"many read many", func(i int) (Key, int32) { return Key(fmt.Sprint(i)), int32(i + 10) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, now := New(fade), time.Unix(1, 0)
			table.most = 1 << 20
			editor := lockmgr.Owner{PID: 5, Start: 1}
			table.Saw(now, "file", Stamp{Ino: 1}, Who{Self: editor})
			for i := range 20_000 {
				now = now.Add(time.Microsecond)
				key, pid := tt.read(i)
				table.Saw(now, key, Stamp{Ino: 1}, Who{Self: lockmgr.Owner{PID: pid, Start: 1}})
			}
			b := table.Check(now, "file", Stamp{Ino: 2}, []lockmgr.Owner{editor}, fade, Readers)
			if b.Stale != (tt.name != "many read many") {
				t.Errorf("the editor knows %+v", b)
			}
			table.checkInvariants(t)
		})
	}
}

func TestConcurrently(t *testing.T) {
	table, now := New(fade), time.Unix(1, 0)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			o := lockmgr.Owner{PID: int32(i + 1), Start: 1}
			for j := range 300 {
				key := Key(fmt.Sprint(j % 5))
				table.Saw(now, key, Stamp{Ino: 1}, Who{Self: o})
				table.Changed(now, key, Stamp{Ino: uint64(j)}, Who{Self: o}, Author{})
				table.Check(now, key, Stamp{Ino: 1}, []lockmgr.Owner{o}, fade, Readers)
				if j%50 == 0 {
					table.Sweep(now, func(lockmgr.Owner) bool { return true })
					for range table.Unsaved("x") {
					}
					table.Moved(now, "0", "1", true, Who{Self: o}, Author{})
				}
			}
		})
	}
	wg.Wait()
	table.checkInvariants(t)
}

// FuzzLoad: a file that is not ours is refused, and leaves the table as it was.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(oldState))
	f.Add([]byte(`{"format":1}`))
	f.Add([]byte(`{"format":3,"boot":"x","files":[{"key":"Zg=="}]}`))
	f.Add([]byte(`{"format":3,"boot":"x","files":[{"key":"Zg==","changes":[{"number":3},{"number":5}]}]}`))
	f.Add([]byte(`{"format":3,"boot":"x","files":[{"key":"Zg==","changes":[{"number":3}],"informed":9,"facts":[{"owner":{"PID":1},"own":{"number":8}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		table := New(fade)
		err := table.Load(data, "x")
		if keys, _ := table.Size(); err != nil && keys != 0 {
			t.Errorf("%v, and %d keys are there", err, keys)
		}
		table.checkInvariants(t)
		table.Check(time.Unix(1, 0), "f", Stamp{}, []lockmgr.Owner{{PID: 1}}, fade, Readers)
	})
}

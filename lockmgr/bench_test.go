package lockmgr

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// key names one file of many, a hundred in each directory.
func key(i int) Key { return Key(fmt.Sprintf("home/anna/dir%d/file%d.json", i/100, i)) }

// crowded returns a table with n locks held by one process, on other keys than
// the benchmarks use.
func crowded(b *testing.B, n int) *Table {
	tab := New(Options{})
	for i := range n {
		must(b, tab, ask(1, Exclusive, key(i)))
	}
	return tab
}

func BenchmarkAcquireRelease(b *testing.B) {
	for _, c := range []struct {
		name   string
		others int
		keys   []Key
	}{
		{"uncontended", 0, []Key{"home/anna/project/state.json"}},
		{"top", 0, []Key{"state.json"}},
		{"rename", 0, []Key{"home/anna/project/state.json", "home/anna/project/state.json.tmp"}},
		{"among100000", 100_000, []Key{"home/anna/project/state.json"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			tab := crowded(b, c.others)
			r := ask(2, Exclusive, c.keys...)
			b.ReportAllocs()
			for b.Loop() {
				l, err := tab.Acquire(r)
				if err != nil {
					b.Fatal(err)
				}
				tab.Release(l)
			}
		})
	}
}

// BenchmarkBesideTree is the same while there are tree locks: another's
// elsewhere, or one of the requester's own above.
func BenchmarkBesideTree(b *testing.B) {
	for _, c := range []struct {
		name  string
		owner int32
		tree  Key
	}{
		{"elsewhere", 1, "home/bert"},
		{"above", 2, "home/anna"},
	} {
		b.Run(c.name, func(b *testing.B) {
			tab := New(Options{})
			must(b, tab, Request{Trees: []Key{c.tree}, Mode: Exclusive, Owner: Owner{PID: c.owner, Start: 1}})
			r := ask(2, Exclusive, "home/anna/project/state.json")
			b.ReportAllocs()
			for b.Loop() {
				tab.Release(must(b, tab, r))
			}
		})
	}
}

// BenchmarkContended is goroutines that take one key by turns, each waiting for
// the one before it.
func BenchmarkContended(b *testing.B) {
	tab := New(Options{})
	var pid atomic.Int32
	b.ReportAllocs()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		r := ask(pid.Add(1), Exclusive, "f")
		for pb.Next() {
			l, err := tab.Acquire(r)
			if err != nil {
				b.Error(err)
				return
			}
			<-l.Done()
			tab.Release(l)
		}
	})
}

// BenchmarkParallel is goroutines on keys of their own.
func BenchmarkParallel(b *testing.B) {
	tab := New(Options{})
	var pid atomic.Int32
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		i := pid.Add(1)
		r := ask(i, Exclusive, key(int(i)))
		for pb.Next() {
			l, err := tab.Acquire(r)
			if err != nil {
				b.Error(err)
				return
			}
			tab.Release(l)
		}
	})
}

// BenchmarkHandOver is one release that makes the next of n waiters a holder,
// and one new waiter at the end of the queue.
func BenchmarkHandOver(b *testing.B) {
	for _, n := range []int{1, 200, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tab := New(Options{})
			queue := make([]*Lock, n+1)
			for i := range queue {
				queue[i] = must(b, tab, ask(int32(i+1), Exclusive, "f"))
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				l := queue[i]
				tab.Release(l)
				queue[i] = must(b, tab, ask(int32(i+1), Exclusive, "f"))
				i = (i + 1) % len(queue)
			}
		})
	}
}

// BenchmarkGiveUp is one of n waiters that gives up, and comes again. With
// lineage each has ancestors of its own.
func BenchmarkGiveUp(b *testing.B) {
	for _, n := range []int{1, 200, 10_000} {
		for _, depth := range []int{0, 8} {
			b.Run(fmt.Sprintf("%d/lineage%d", n, depth), func(b *testing.B) {
				tab := New(Options{})
				must(b, tab, ask(1, Exclusive, "f"))
				requests, queue := make([]Request, n), make([]*Lock, n)
				for i := range queue {
					requests[i] = ask(int32(i+2), Exclusive, "f")
					for j := range depth {
						parent := Owner{PID: int32(n + depth*i + j + 2), Start: 1}
						requests[i].Lineage = append(requests[i].Lineage, Ancestor{Owner: parent})
					}
					queue[i] = must(b, tab, requests[i])
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					tab.Cancel(queue[i], nil)
					queue[i] = must(b, tab, requests[i])
					i = (i + 1) % n
				}
			})
		}
	}
}

// BenchmarkWaitOfManyHolders is a request that must wait, and gives up, of a
// process that holds n locks: somebody might wait for any of them.
func BenchmarkWaitOfManyHolders(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tab := crowded(b, n)
			must(b, tab, ask(2, Exclusive, "f"))
			r := ask(1, Exclusive, "f")
			b.ReportAllocs()
			for b.Loop() {
				tab.Cancel(must(b, tab, r), nil)
			}
		})
	}
}

// BenchmarkReadersGo is n readers that a writer lets in at once.
func BenchmarkReadersGo(b *testing.B) {
	for _, n := range []int{200, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				tab := New(Options{})
				w := must(b, tab, ask(1, Exclusive, "f"))
				for i := range n {
					must(b, tab, ask(int32(i+2), Shared, "f"))
				}
				must(b, tab, ask(int32(n+2), Exclusive, "f"))
				b.StartTimer()
				tab.Release(w)
			}
		})
	}
}

// BenchmarkSnapshot is a look at 100,000 holders.
func BenchmarkSnapshot(b *testing.B) {
	tab := crowded(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		tab.Snapshot()
	}
}

// BenchmarkRenameTrees renames a directory with a hundred locks, among 100,000.
func BenchmarkRenameTrees(b *testing.B) {
	tab := crowded(b, 100_000)
	from, to := Key("home/anna/dir7"), Key("home/anna/moved")
	b.ReportAllocs()
	for b.Loop() {
		tab.RenameTrees(Rename{From: from, To: to})
		from, to = to, from
	}
}

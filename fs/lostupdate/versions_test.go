package lostupdate

import (
	"slices"
	"testing"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/proc"
)

// link gives the file of a path a further name.
func (s *stage) link(path, further string) {
	f := s.files[path]
	s.Shared(path, f.Stamp)
	f.Linked = true
	s.files[path] = f
	f.Path = further
	s.files[further] = f
}

// inPlace lets a session write the file itself, under one of its names.
func (s *stage) inPlace(pid int32, path string, names ...string) {
	f := s.files[path]
	f.Stamp.Mtime++
	s.put(pid, f, &Made{Session: true, InPlace: true})
	for _, name := range names {
		f.Path = name
		s.files[name] = f
	}
}

// What is known of a file under one name is known of it under the others.
func TestNamesOfOneFile(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		s.read(10, "a")
		s.link("a", "b")
		s.wantLoss(false, 10, "b")
		s.inPlace(20, "b", "a")
		s.wantLoss(true, 10, "b")
		s.wantLoss(true, 10, "a")
		if _, by := s.Known.WrittenBy("a", s.files["a"].Stamp); by.PID != 20 {
			t.Errorf("what was written under another name is by %d", by.PID)
		}
		s.read(10, "b")
		s.wantLoss(false, 10, "a")
		s.inPlace(10, "b", "a")
		s.wantLoss(false, 10, "a")
		s.wantLoss(false, 20, "a")
	})
}

// A file that has had several names has what was known of it under those it has lost.
func TestOneNameIsLeft(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		s.link("a", "b")
		s.read(10, "b")
		s.inPlace(20, "b", "a")
		f := s.files["a"]
		f.Linked = false
		s.files["a"] = f
		s.wantLoss(true, 10, "a")
		if LinkKey(knowledge.Stamp{Dev: 1, Ino: 0x11}) == LinkKey(knowledge.Stamp{Dev: 0x11, Ino: 1}) {
			t.Error("two files have one key")
		}
	})
}

// The name that a file with several loses to another keeps what was known under the others.
func TestLeaves(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		s.link("a", "b")
		s.read(10, "b")
		s.Leaves("a", s.files["a"].Stamp)
		s.write(20, "a")
		s.wantLoss(true, 10, "a")
	})
}

// A new inode is not the file that had its number.
func TestCreated(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		f := s.files["a"]
		s.link("a", "b")
		if !s.IsFollowed(&File{Path: "c", Stamp: f.Stamp}) {
			t.Error("nothing is known of a file with two names")
		}
		s.Created(f.Stamp)
		if s.IsFollowed(&File{Path: "c", Stamp: f.Stamp}) {
			t.Error("something is known of a new file")
		}
		if s.read(10, "a"); !s.IsFollowed(&File{Path: "a"}) {
			t.Error("nothing is known of a path that was read")
		}
	})
}

// A path has the version that was made under another name of its file by whoever has
// made it there.
func TestCatchUp(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		s.read(10, "a")
		s.link("a", "b")
		s.inPlace(11, "b", "a")
		s.CatchUp("a", s.files["a"].Stamp)
		if _, by := s.Known.WrittenBy("a", s.files["a"].Stamp); by.PID != 11 {
			t.Errorf("the version is that of %d", by.PID)
		}
		if owners, _ := s.Known.WrittenBy("a", s.files["a"].Stamp); !slices.Equal(owners, []lockmgr.Owner{owner(11), owner(10)}) {
			t.Errorf("the version is that of %v", owners)
		}
		s.CatchUp("never heard of", s.files["a"].Stamp)
		if s.Known.Tracks("never heard of") {
			t.Error("a path is followed that nobody knows")
		}
		s.CatchUp("a", knowledge.Stamp{Ino: 99})
		if _, is := s.Known.Current("a"); is != s.files["a"].Stamp {
			t.Error("a version is caught up with that nobody has made")
		}
	})
}

func TestRestamped(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		s.link("a", "b")
		s.read(10, "a")
		was := s.files["a"].Stamp
		is := was
		is.Mtime++
		for _, name := range []string{"a", "b"} {
			s.files[name] = File{Path: name, Stamp: is, Linked: true}
		}
		s.Restamped("a", was, is)
		s.wantLoss(false, 10, "a")
		s.wantLoss(false, 10, "b")
		if _, now := s.Known.Current(LinkKey(is)); now != is {
			t.Errorf("the file is known as %+v", now)
		}
		s.write(20, "c")
		s.read(10, "c")
		f := s.files["c"]
		f.Stamp.Mtime++
		s.Restamped("c", s.files["c"].Stamp, f.Stamp)
		s.files["c"] = f
		s.wantLoss(false, 10, "c")
		// It has lost its other names, and what was known of them all is known of it still.
		s.Restamped("b", is, was)
		if _, now := s.Known.Current(LinkKey(is)); now != was {
			t.Errorf("the file is known as %+v", now)
		}
	})
}

// A process that appends learns nothing; to whom the version before was no news its records
// are none either.
func TestAppends(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		s.link("a", "b")
		s.read(10, "a")
		s.add(10, "a")
		if _, now := s.Known.Current(LinkKey(s.files["a"].Stamp)); now != s.files["a"].Stamp {
			t.Error("the file has not grown under its other names")
		}
		s.wantLoss(false, 10, "a")
		s.add(20, "a")
		s.wantLoss(true, 10, "a")
		s.add(10, "a")
		s.wantLoss(true, 10, "a")
		f := s.files["a"]
		f.Stamp.Mtime++
		s.put(20, f, &Made{Adds: true, InPlace: true, Session: true})
		if _, now := s.Known.Current(LinkKey(f.Stamp)); now == f.Stamp {
			t.Error("a session's file has grown under other names")
		}
	})
}

// One request that writes a file in place makes a version of it under all names, if it is
// known to have several; one that replaces it makes none.
func TestMadeUnderOtherNames(t *testing.T) {
	onStage(t, func(s *stage) {
		known := func(f File) bool {
			_, now := s.Known.Current(LinkKey(f.Stamp))
			return now == f.Stamp
		}
		for _, c := range []struct {
			m      Made
			linked bool
			want   bool
		}{
			{Made{InPlace: true}, true, true}, {Made{InPlace: true}, false, false},
			{Made{InPlace: true, Session: true}, false, true}, {Made{Session: true}, true, false},
		} {
			s.write(20, "a")
			if c.linked {
				s.read(20, "a")
				s.link("a", "b")
			}
			f := s.files["a"]
			f.Stamp.Mtime++
			m := c.m
			if s.put(10, f, &m); known(f) != c.want {
				t.Errorf("%+v: the version is known under other names: %v", c.m, known(f))
			}
		}
	})
}

// What is read of a path that holds another version by now teaches what was read.
func TestSaw(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		s.read(30, "a")
		f := File{Path: "a", Stamp: knowledge.Stamp{Ino: 77, Size: 1}} // put there outside the mount
		found := 0
		find := func() { found++; s.Known.Found(time.Now(), "a", f.Stamp) }
		sight := s.Saw(&f, s.who(11), find)
		if found != 1 || sight == nil {
			t.Fatalf("the table was told of the version %d times", found)
		}
		if b := s.Basis(&Change{File: f, Set: &s.set, Chain: Chain(s.who(11), nil)}); !b.Known || b.Stale {
			t.Errorf("who has looked knows %+v", b)
		}
		if s.Saw(&f, s.who(11), find); found != 1 {
			t.Error("the table is told again")
		}
		s.files["a"] = f
		s.wantLoss(false, 10, "a")
		s.wantLoss(true, 30, "a")
		if s.Known.Tracks(LinkKey(f.Stamp)) {
			t.Error("a file with one name has a key for several")
		}
		s.Known.Withdraw(sight)
		if b := s.Basis(&Change{File: f, Set: &s.set, Chain: Chain(s.who(11), nil)}); b.Known && !b.Stale && b.At.Before(sight.At) {
			t.Errorf("what a look has taught stays: %+v", b)
		}
	})
}

// What a session's writer reads is what the path holds, whoever has put it there.
func TestSawCurrent(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		s.read(10, "a")
		s.link("a", "b")
		f := s.files["a"]
		f.Stamp.Mtime++
		s.files["a"] = f
		s.wantLoss(true, 10, "a")
		s.SawCurrent(&f, s.who(10))
		s.wantLoss(false, 10, "a")
		f.Path = "b"
		s.files["b"] = f
		s.wantLoss(false, 10, "b")
	})
}

// The same of a file with one name.
func TestSawCurrentOfOneName(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		s.read(20, "a")
		f := s.files["a"]
		f.Stamp.Mtime++
		s.SawCurrent(&f, s.who(10))
		s.files["a"] = f
		s.wantLoss(false, 10, "a")
		s.write(20, "a")
		s.wantLoss(true, 10, "a")
	})
}

// A thread is believed to see nothing new for a moment, while nobody learns anything.
func TestLook(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(20, "a")
		f := s.files["a"]
		if l := s.NewLook(7); !s.IsNews(l, &f, owner(10)) {
			t.Error("what was never read is no news")
		}
		s.read(10, "a")
		first := s.NewLook(7)
		if s.IsNews(first, &f, owner(10)) {
			t.Error("what was read is news at once")
		}
		linked := f
		if linked.Linked = true; !s.IsNews(first, &linked, owner(10)) {
			t.Error("a file with several names is looked at under one alone")
		}
		if !first.Covers(s.NewLook(7)) || first.Covers(s.NewLook(8)) {
			t.Error("the look of a thread counts for another, or not for its own")
		}
		s.later(9 * time.Millisecond)
		if !first.Covers(s.NewLook(7)) {
			t.Error("a look counts no longer after 9 ms")
		}
		s.later(time.Millisecond)
		if first.Covers(s.NewLook(7)) {
			t.Error("a look counts for 10 ms")
		}
		s.later(2 * time.Second)
		if !s.IsNews(s.NewLook(7), &f, owner(10)) {
			t.Error("what was read long ago is no news")
		}
		last := s.NewLook(7)
		if s.read(30, "a"); last.Covers(s.NewLook(7)) {
			t.Error("a look counts after somebody has learned something")
		}
	})
}

// After a merge the writer knows what it has written, and nobody what came out of it.
func TestMadeMerged(t *testing.T) {
	onStage(t, func(s *stage) {
		s.overtaken()
		merged := s.files["f"]
		merged.Stamp.Ino = 50
		serial := func() uint64 { return 1234 }
		w := s.MadeMerged("f", merged.Stamp, &Merge{mine: []byte("mine")}, s.who(11), author(11, "open"), serial)
		s.files["f"] = merged
		if w == nil || string(w.Content) != "mine" || w.Stamp.Dev != noDevice || w.Stamp.Ino != 1234 || w.Stamp.Size != 4 || w.Number == 0 {
			t.Fatalf("what was written is %+v", w)
		}
		l := s.loss(11, "f")
		if l == nil || l.Basis.Stamp != w.Stamp || l.Basis.Version != w.Number || !l.Basis.Own {
			t.Errorf("the writer loses %+v", l)
		}
		if number, is := s.Known.Current("f"); number != w.Number+1 || is != merged.Stamp {
			t.Errorf("the current version is %d, %+v", number, is)
		}

		merged.Stamp.Ino = 51
		if w := s.MadeMerged("f", merged.Stamp, &Merge{}, s.who(11), author(11, "open"), serial); w != nil {
			t.Errorf("a merge that changed nothing has written %+v", w)
		}
		s.files["f"] = merged
		s.wantLoss(false, 11, "f")
	})
}

// outside puts another content into a file, which has these names, as nobody is told.
func (s *stage) outside(names ...string) {
	f := s.files[names[0]]
	f.Stamp.Mtime++
	for _, name := range names {
		f.Path = name
		s.files[name] = f
	}
}

// What is read under one name of a version that nobody has announced is known under the others.
func TestReadUnderAnotherName(t *testing.T) {
	for name, read := range map[string]func(s *stage, path string){
		"of a file": func(s *stage, path string) { s.read(10, path) },
		"of the version that a session replaces": func(s *stage, path string) {
			f := s.files[path]
			s.SawCurrent(&f, s.who(10))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.write(20, "a")
				s.link("a", "b")
				s.read(30, "a")
				s.outside("a", "b")
				s.later(time.Second)
				read(s, "a")
				s.wantLoss(false, 10, "b")
				s.wantLoss(false, 10, "a")
				s.wantLoss(true, 30, "b")
				s.later(time.Second)
				s.inPlace(20, "b", "a")
				s.wantLoss(true, 10, "b")
				s.wantLoss(true, 10, "a")
			})
		})
	}
}

// Who opens a file while somebody writes it in place under another of its names has perhaps
// read half of a version. It does not know that which comes of it, under no name; and to an
// ancestor of the writer no half of what it has made is news.
func TestReadWhileItIsWrittenInPlace(t *testing.T) {
	const reader, late, writer, ancestor = 10, 30, 20, 40
	for name, early := range map[string]bool{"noted meanwhile": true, "noted later": false} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.families[writer] = proc.Family{Above: []lockmgr.Owner{owner(ancestor)}}
				s.write(writer, "a")
				s.link("a", "b")
				s.read(ancestor, "a")
				s.later(time.Second)
				whole := s.files["a"]
				s.BeginsInPlace(whole.Stamp, s.who(writer), author(writer, "open"))
				var notes []func()
				for _, pid := range []int32{reader, late} {
					s.outside("b", "a")
					half := s.files["b"]
					notes = append(notes, func() {
						s.Saw(&half, s.who(pid), func() { s.Known.Found(time.Now(), "b", s.files["b"].Stamp) })
					})
				}
				note := func() {
					for _, note := range notes {
						note()
					}
				}
				if early {
					note()
				}
				whole.Stamp.Mtime = s.files["a"].Stamp.Mtime + 1
				s.put(writer, whole, &Made{Session: true, InPlace: true})
				whole.Path = "b"
				s.files["b"] = whole
				if !early {
					note()
				}
				for _, name := range []string{"a", "b"} {
					s.wantLoss(true, reader, name)
					s.wantLoss(true, late, name)
					s.wantLoss(false, ancestor, name)
					s.wantLoss(false, writer, name)
				}
			})
		})
	}
}

// A version that was to be written in place, and was not, keeps nobody from knowing the next.
func TestNotWrittenInPlace(t *testing.T) {
	for name, end := range map[string]func(s *stage, was knowledge.Stamp){
		"given up": func(s *stage, was knowledge.Stamp) { s.GivesUpInPlace(was) },
		"added to": func(s *stage, _ knowledge.Stamp) {
			f := s.files["a"]
			f.Stamp.Size++
			s.put(20, f, &Made{Session: true, InPlace: true, Adds: true})
			f.Path = "b"
			s.files["b"] = f
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.write(20, "a")
				s.link("a", "b")
				was := s.files["a"].Stamp
				s.BeginsInPlace(was, s.who(20), author(20, "open"))
				end(s, was)
				s.outside("b", "a")
				s.read(10, "b")
				s.wantLoss(false, 10, "a")
			})
		})
	}
}

// What somebody has written in place, and nobody asked whether he may, is his work under every
// name of the file, also before he is through.
func TestWroteInPlace(t *testing.T) {
	onStage(t, func(s *stage) {
		s.write(10, "f")
		s.read(10, "f")
		f := s.files["f"]
		s.Shared("f", f.Stamp)
		write := func(pid int32, told bool) {
			s.BeginsInPlace(f.Stamp, s.who(pid), author(pid, "open"))
			f.Stamp.Mtime++
			s.files["f"] = f
			if told {
				s.WroteInPlace(f.Stamp, s.who(pid), author(pid, "open"))
			}
		}
		write(11, true)
		s.wantLoss(false, 10, "f")
		write(11, false)
		s.wantLoss(false, 10, "f")
		s.WroteInPlace(f.Stamp, s.who(20), author(20, "open")) // has only had it open meanwhile
		s.wantLoss(false, 10, "f")
		write(20, true)
		if l := s.loss(10, "f"); l == nil || l.Basis.Newer.Author.PID != 20 {
			t.Errorf("lost is %+v", l)
		}
		s.WroteInPlace(knowledge.Stamp{Ino: 99}, s.who(20), author(20, "open"))
		if s.IsFollowed(&File{Path: "g", Stamp: knowledge.Stamp{Ino: 99}}) {
			t.Error("a file of which nothing is known is followed")
		}
	})
}

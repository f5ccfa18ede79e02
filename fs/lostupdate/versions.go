package lostupdate

import (
	"strconv"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// LinkKey is the key under which the versions of a file with several names are known
// beside those of each name. No path has it.
func LinkKey(st knowledge.Stamp) knowledge.Key {
	return knowledge.Key("//" + strconv.FormatUint(st.Dev, 16) + ":" + strconv.FormatUint(st.Ino, 16))
}

// IsFollowed reports whether anything is known of a file, under any of its keys.
func (j *Judge) IsFollowed(f *File) bool {
	return j.Known.Tracks(f.key()) || j.Known.Tracks(LinkKey(f.Stamp))
}

// CatchUp lets a path have the version stamp by whoever has made that under another name
// of the file.
func (j *Judge) CatchUp(path string, stamp knowledge.Stamp) {
	key := knowledge.Key(path)
	if number, is := j.Known.Current(key); number == 0 || is == stamp {
		return
	}
	if owners, by := j.Known.WrittenBy(LinkKey(stamp), stamp); len(owners) > 0 {
		j.Known.Changed(time.Now(), key, stamp, knowledge.Who{Self: owners[0], Relatives: owners[1:]}, by)
	}
}

// Leaves notes that a path is about to hold another file than the one with the stamp: what
// is known of that under any of its names, if it has had several, is known of the path from
// now on.
func (j *Judge) Leaves(path string, stamp knowledge.Stamp) {
	j.Known.Share(LinkKey(stamp), knowledge.Key(path))
}

// Shared notes that a file has got a second name: what is known of it under its path is
// known of it under all.
func (j *Judge) Shared(path string, stamp knowledge.Stamp) {
	j.Known.Share(knowledge.Key(path), LinkKey(stamp))
}

// Created notes that an inode is new: what is known of its number was another file's.
func (j *Judge) Created(stamp knowledge.Stamp) { j.Known.Forget(LinkKey(stamp)) }

// Follow lets what becomes of a path be remembered: somebody has a file open that it holds,
// and means that.
func (j *Judge) Follow(path string, stamp knowledge.Stamp) { j.Known.Track(knowledge.Key(path), stamp) }

// Restamped notes that a file has other times, or is another inode, and holds the same
// version still. What is known of all its names is known of the one that it has left, too.
func (j *Judge) Restamped(path string, was, is knowledge.Stamp) {
	j.Known.Restamp(knowledge.Key(path), was, is)
	j.Known.Restamp(LinkKey(was), was, is)
}

// Made is a version that somebody has made.
type Made struct {
	Path string
	Is   knowledge.Stamp // zero: there is no file any more
	// Adds is whether it was made of the version Was by appending.
	Adds bool
	Was  knowledge.Stamp
	// InPlace is whether the file was written itself, and not another put in its place.
	InPlace bool
	// Session is whether a session has made it, and not one request.
	Session bool
}

// Made notes whose a version is.
func (j *Judge) Made(m *Made, who knowledge.Who, by knowledge.Author) {
	now, key, link := time.Now(), knowledge.Key(m.Path), LinkKey(m.Is)
	if m.Adds {
		j.Known.Added(now, key, m.Was, m.Is, who, by)
		if m.Session {
			j.Known.Expected(link)
		} else {
			j.Known.Added(now, link, m.Was, m.Is, who, by)
		}
		return
	}
	j.Known.Changed(now, key, m.Is, who, by)
	if m.InPlace && (m.Session || j.Known.Tracks(link)) {
		j.Known.Changed(now, link, m.Is, who, by)
	}
}

// noDevice is the device of versions that never were a file.
const noDevice = ^uint64(0)

// Written is what a writer has made of the version that it knew, and that was never a file.
type Written struct {
	Number  uint64
	Stamp   knowledge.Stamp
	Content []byte
}

// MadeMerged notes two versions: what the writer has made of the one that it knew, which
// nobody else has ever seen and its next change will be based on, and what came out of the
// merge, which nobody has seen yet. It returns the first, whose content is to be kept; serial
// makes a number for it that no other version has. Of a merge that has changed nothing there
// is but one, and nil is returned.
func (j *Judge) MadeMerged(path string, stamp knowledge.Stamp, g *Merge, who knowledge.Who, by knowledge.Author, serial func() uint64) *Written {
	key := knowledge.Key(path)
	if g.mine == nil {
		j.Known.Changed(time.Now(), key, stamp, who, by)
		return nil
	}
	w := &Written{Content: g.mine,
		Stamp: knowledge.Stamp{Dev: noDevice, Ino: serial(), Size: int64(len(g.mine)), Mtime: time.Now().UnixNano()}}
	j.Known.Changed(time.Now(), key, w.Stamp, who, by)
	w.Number, _ = j.Known.Current(key)
	j.Known.Changed(time.Now(), key, stamp, knowledge.Who{}, by)
	return w
}

// sameRead is how long a process that has read a version is not told of it again.
const sameRead = time.Second

// lookFor is how long a thread id is believed to be the same thread, and nobody to have
// changed the file outside the mount.
const lookFor = 10 * time.Millisecond

// Look is an open by which a thread sees a version. While nobody learns anything, nor
// changes a file, the next look of the thread has nothing new to tell it: a program that
// polls a file is not looked up each time.
type Look struct {
	tid  uint32
	at   time.Time
	news uint64 // of the table of what is known
}

// NewLook is an open by a thread now.
func (j *Judge) NewLook(tid uint32) Look { return Look{tid, time.Now(), j.Known.News()} }

// Covers reports whether a later look has nothing new to tell if this one had not.
func (l *Look) Covers(later Look) bool {
	return l.tid == later.tid && l.news == later.news && later.at.Sub(l.at) < lookFor
}

// IsNews reports whether a look tells a process anything about the file: the cheap question
// before Saw.
func (j *Judge) IsNews(l Look, f *File, o lockmgr.Owner) bool {
	return f.Linked || !j.Known.Knows(l.at, f.key(), f.Stamp, o, sameRead)
}

// Saw notes that a process has opened the file for reading, and returns what that has
// changed. find tells the table which version the path holds: the one that was opened was put
// there outside the mount, or is there no longer.
func (j *Judge) Saw(f *File, who knowledge.Who, find func()) *knowledge.Sight {
	now := time.Now() // what find finds there is not older than that
	sight := j.Known.Before(now, f.key(), who)
	if !j.Known.Saw(now, f.key(), f.Stamp, who) {
		find()
		j.Known.Saw(now, f.key(), f.Stamp, who)
	}
	j.sawLink(now, f, who, find)
	return sight
}

// SawCurrent notes a read of the current version of a path whose lock is held.
func (j *Judge) SawCurrent(f *File, who knowledge.Who) {
	now := time.Now()
	j.Known.Found(now, f.key(), f.Stamp)
	j.Known.Saw(now, f.key(), f.Stamp, who)
	j.sawLink(now, f, who, func() {})
}

// sawLink is Saw under the key that all names of a file share. Nobody tells that key what was
// done outside the mount, or which version the path got in whose log a crash has left a gap:
// then the version that was seen is entered there, if it is whole. It may be half of one where
// somebody writes the file in place under another of its names. So it has to be what the path
// holds after the key was asked, and nobody may be making one (BeginsInPlace), nor have made
// one meanwhile. Otherwise the reader knows a version that cannot be told, and is refused.
func (j *Judge) sawLink(now time.Time, f *File, who knowledge.Who, find func()) {
	if !f.Linked {
		return
	}
	link := LinkKey(f.Stamp)
	if j.Known.Saw(now, link, f.Stamp, who) {
		return
	}
	number, _ := j.Known.Current(link)
	find()
	if _, is := j.Known.Current(f.key()); is != f.Stamp {
		return
	}
	j.Known.Meet(now, link, number, f.Stamp)
	j.Known.Saw(now, link, f.Stamp, who)
}

// BeginsInPlace notes that somebody is about to write the file was in place: until Made, or
// GivesUpInPlace, nobody can tell what it holds under any of its names.
func (j *Judge) BeginsInPlace(was knowledge.Stamp, who knowledge.Who, by knowledge.Author) {
	j.Known.Expect(LinkKey(was), knowledge.Stamp{}, who, by)
}

// WroteInPlace notes that somebody who has written a live file has left it as is. What has been
// met of that before is told already.
func (j *Judge) WroteInPlace(is knowledge.Stamp, who knowledge.Who, by knowledge.Author) {
	link := LinkKey(is)
	if number, known := j.Known.Current(link); number != 0 && known != is {
		j.Known.Changed(time.Now(), link, is, who, by)
	}
}

// GivesUpInPlace takes that back.
func (j *Judge) GivesUpInPlace(was knowledge.Stamp) { j.Known.Expected(LinkKey(was)) }

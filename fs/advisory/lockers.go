package advisory

import (
	"maps"
	"slices"

	"latchfs/lockmgr"
)

// note remembers that a client is about to lock through a file.
func (r *Room) note(f File, c Client) {
	r.ends.Lock()
	defer r.ends.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	ls := r.lockersLocked(f)
	if _, ok := ls.locks[c]; !ok {
		ls.locks[c] = nil
	}
}

// remember keeps with the file one of the locks that a client has through it: the key under
// which they can be undone may change with the file's name.
func (r *Room) remember(f File, c Client, l *lockmgr.Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ls := r.lockersLocked(f)
	ls.locks[c] = append(slices.DeleteFunc(ls.locks[c], func(o *lockmgr.Lock) bool { return !o.Held() }), l)
}

// lockersLocked are those who lock through a file.
func (r *Room) lockersLocked(f File) *lockers {
	ls := r.files[f.ID()]
	if ls == nil {
		ls = &lockers{file: f, locks: map[Client][]*lockmgr.Lock{}}
		r.files[f.ID()] = ls
	}
	return ls
}

// keys are the keys under which a client may hold locks through a file: now is that of the
// file.
func (r *Room) keys(f File, c Client, now lockmgr.Key) []lockmgr.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := []lockmgr.Key{now}
	ls := r.files[f.ID()]
	if ls == nil {
		return keys
	}
	for _, l := range ls.locks[c] {
		if k := l.Keys(); len(k) > 0 && !slices.Contains(keys, k[0]) {
			keys = append(keys, k[0])
		}
	}
	return keys
}

// forget lets a client have locked nothing through a file. RELEASE comes late: by then the
// process may have locked the file again, through another descriptor.
func (r *Room) forget(f File, c Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ls := r.files[f.ID()]; ls != nil {
		delete(ls.locks, c)
	}
}

// clients are those who have locked through a file.
func (r *Room) clients(f File) []Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ls := r.files[f.ID()]; ls != nil {
		return slices.Collect(maps.Keys(ls.locks))
	}
	return nil
}

// filesWhere lists the files whose lockers are as the function says. It is called with mu
// held.
func (r *Room) filesWhere(is func(*lockers) bool) (out []File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ls := range r.files {
		if is(ls) {
			out = append(out, ls.file)
		}
	}
	return out
}

// through lists the files through which a client has locked.
func (r *Room) through(c Client) []File {
	return r.filesWhere(func(ls *lockers) bool {
		_, ok := ls.locks[c]
		return ok
	})
}

// Closed drops the byte ranges of a process that closes a descriptor of the inode: any
// descriptor (fcntl(2)).
func (r *Room) Closed(f File, process uint64) {
	in := f.Inode()
	if !in.HasBytesLocked() {
		return
	}
	c := Client{lockmgr.Posix, process}
	now := r.Key(f, c.Class)
	r.c.Table.Unlock(now, c.Class, c.ID, lockmgr.Whole)
	for _, o := range r.filesWhere(func(ls *lockers) bool { return ls.file.Inode() == in }) {
		for _, k := range r.keys(o, c, now) {
			r.c.Table.Unlock(k, c.Class, c.ID, lockmgr.Whole)
		}
		r.forget(o, c)
		r.announceEnd(o)
	}
}

// Released drops what was locked through a file that is released: flock and open file
// description locks end with it. What the client has locked through another file stays: it
// is a process, of whose close nobody has told (File.IsTold); or the kernel has given the
// number of the open file to another one already.
func (r *Room) Released(f File) {
	for _, c := range r.clients(f) {
		keys := r.keys(f, c, r.Key(f, c.Class))
		r.ends.Lock()
		for _, k := range keys {
			if !r.locksElsewhere(f, c, k) {
				r.c.Table.Unlock(k, c.Class, c.ID, lockmgr.Whole)
			}
		}
		r.forget(f, c)
		r.ends.Unlock()
	}
	r.announceEnd(f)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.files, f.ID())
}

// locksElsewhere reports whether a client locks k through another file than f, whose close
// will be told; that may be another version of what has the name.
func (r *Room) locksElsewhere(f File, c Client, k lockmgr.Key) bool {
	if c.Class == lockmgr.Flock { // it is f
		return false
	}
	return slices.ContainsFunc(r.through(c), func(o File) bool {
		return o.ID() != f.ID() && slices.Contains(r.keys(o, c, r.Key(o, c.Class)), k)
	})
}

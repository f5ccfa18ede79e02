package content

import "golang.org/x/sys/unix"

// Stamp tells the content of a shadow from what it was. The zero Stamp is that of nothing.
type Stamp struct {
	Size  int64
	Mtime unix.Timespec
}

// Look is the Stamp of what is open as fd; zero if that cannot be seen.
func Look(fd int) Stamp {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return Stamp{}
	}
	return StampOf(&st)
}

// StampOf is the Stamp of what has the status st.
func StampOf(st *unix.Stat_t) Stamp { return Stamp{Size: st.Size, Mtime: st.Mtim} }

// IsZero reports whether it is that of nothing.
func (s Stamp) IsZero() bool { return s == Stamp{} }

// Saved is which contents of one session's shadow were synced, and which one was published.
// Whoever calls it holds the session's mutex.
type Saved struct {
	synced    Stamp // at the last fsync
	published Stamp
	recorded  bool // what the journal says of the synced shadow is on disk
	asks      bool // a descriptor of it was opened with O_SYNC or O_DSYNC
}

// Sync notes that an fsync has made durable what the shadow was like when it began, and reports
// whether there was an earlier one with writes between them.
func (s *Saved) Sync(now Stamp) (again bool) {
	last := s.synced
	s.synced = now
	return !last.IsZero() && last != now
}

// WasSynced reports whether anything was synced.
func (s *Saved) WasSynced() bool { return !s.synced.IsZero() }

// IsSynced reports whether a content is the one that was synced last.
func (s *Saved) IsSynced(now Stamp) bool { return s.synced == now }

// Publish notes what was published.
func (s *Saved) Publish(as Stamp) { s.published = as }

// Published is what was published; zero: nothing.
func (s *Saved) Published() Stamp { return s.published }

// IsPublished reports whether anything was published.
func (s *Saved) IsPublished() bool { return !s.published.IsZero() }

// PublishedSynced reports whether the program has synced what was published.
func (s *Saved) PublishedSynced() bool { return s.synced == s.published }

// Record notes whether what the journal says of the synced shadow is on disk.
func (s *Saved) Record(onDisk bool) { s.recorded = onDisk }

// IsRecorded reports whether it is.
func (s *Saved) IsRecorded() bool { return s.recorded }

// Opened notes an open that asks for each write to be on disk, or does not.
func (s *Saved) Opened(asks bool) { s.asks = s.asks || asks }

// WantsDisk reports whether a writer wants on disk what the commit publishes: by how it has
// opened the file, or for it has synced it, and the journal has nothing to keep that.
func (s *Saved) WantsDisk(secured bool) bool { return s.asks || s.WasSynced() && !secured }

package fs

import (
	"bytes"
	"errors"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
)

// openRecord is what is in the file already of a line that is not finished, in pieces
// between which others may have appended. What was synced does not belong to it, nor
// what is no text: nobody may lose that.
type openRecord struct {
	key    inoKey
	pieces []piece
	at     time.Time // of the last one
	gaps   uint64    // the last gap that the pieces' places allow for
}

// piece is a place in a file, and a checksum of what was written there: by the time of
// the writer's end something else may stand there.
type piece struct {
	start, end int64
	sum        uint32
}

const (
	// recordPause is how long the pieces of one line may be apart. A piece whose writer
	// is at work is itself held back for maxLineDelay.
	recordPause = 5 * maxLineDelay
	// maxPieces bounds the pieces that are remembered of one line.
	maxPieces = 256
	// maxTakeOut is the size up to which a file is written anew without a record that
	// stands between those of others.
	maxTakeOut = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (o *openRecord) size() (n int64) {
	for _, p := range o.pieces {
		n += p.end - p.start
	}
	return n
}

// noteRecord notes what the append of b has left unfinished at the file's end. The
// file's lock is held.
func (a *appender) noteRecord(b []byte) {
	var st unix.Stat_t
	if len(b) == 0 || b[len(b)-1] == '\n' || !a.mayDrop(b) || unix.Fstat(a.fd, &st) != nil {
		a.open = openRecord{}
		return
	}
	o := &a.open
	i := bytes.LastIndexByte(b, '\n')
	rest := b[i+1:]
	goesOn := i < 0 && o.key == a.key && o.size()+int64(len(b)) <= maxLine && len(o.pieces) < maxPieces && time.Since(o.at) < recordPause
	if !goesOn || !a.f.gaps.follow(o) {
		*o = openRecord{key: a.key, gaps: a.f.gaps.last()}
	}
	o.at = time.Now()
	start := st.Size - int64(len(rest))
	if n := len(o.pieces); n > 0 && o.pieces[n-1].end == start {
		last := &o.pieces[n-1]
		last.end, last.sum = st.Size, crc32.Update(last.sum, castagnoli, rest)
		return
	}
	o.pieces = append(o.pieces, piece{start, st.Size, crc32.Checksum(rest, castagnoli)})
}

// content reads the record; nil if it no longer stands where it was written.
func (o *openRecord) content(fd int) []byte {
	all := make([]byte, 0, o.size())
	for _, p := range o.pieces {
		part := all[len(all) : len(all)+int(p.end-p.start)]
		if n, err := unix.Pread(fd, part, p.start); err != nil || n != len(part) || crc32.Checksum(part, castagnoli) != p.sum {
			return nil
		}
		all = all[:len(all)+len(part)]
	}
	return all
}

// takeOutLocked writes the file anew without the record, which stands between those of
// others, and reports whether it could. A crash leaves the one or the other: the journal
// has the file as it is to be before any of it is changed. Its inode stays, for others
// have it open to append, or to follow it. The file's lock is held.
func (a *appender) takeOutLocked() bool {
	f := a.f
	dir, name := f.nameOf(a.h.n)
	if dir == nil || f.sessionAt(dir, name) != nil {
		return false
	}
	target, err := unix.Openat(f.fdOf(dir), name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(target)
	var st unix.Stat_t
	if unix.Fstat(target, &st) != nil || a.key != (inoKey{uint64(st.Dev), st.Ino}) || st.Size > maxTakeOut {
		return false
	}
	sh, err := f.store.NewShadow(commit.ShadowOptions{Dir: f.fdOf(dir), DirPath: f.nodePath(dir), Name: name, Base: target, UID: -1, GID: -1})
	if err == nil {
		defer f.discard(sh)
		err = f.retryWithRoom(func() error { return copyWithout(sh.FD(), target, st.Size, a.open.pieces) })
	}
	if err == nil {
		err = f.inPlaceNow(sh, target, commit.PublishOptions{Dir: f.fdOf(dir), DirPath: f.nodePath(dir), Name: name, Base: versionPtr(&st)})
	}
	if err != nil {
		f.log.Warnf("%q keeps a line that its writer cannot finish: %v", f.nodePath(a.h.n), err)
		return false
	}
	f.gaps.add(a.key, a.open.pieces)
	return true
}

// inPlaceNow commits the shadow in place, by a recovery if it does not come through at
// once.
func (f *FS) inPlaceNow(sh *commit.Shadow, target int, o commit.PublishOptions) error {
	_, err := sh.InPlace(target, o)
	if errors.Is(err, commit.ErrRedoPending) {
		_, err = f.store.Recover()
	}
	if errors.Is(err, commit.ErrNotDurable) {
		f.log.Errorf("%q: %v", join(o.DirPath, o.Name), err)
		return nil
	}
	return err
}

// copyWithout makes to what the first size bytes of from are without the pieces.
func copyWithout(to, from int, size int64, pieces []piece) error {
	if err := unix.Ftruncate(to, 0); err != nil {
		return err
	}
	buf := make([]byte, min(size, 1<<20))
	begin, at := int64(0), int64(0)
	for _, p := range append(slices.Clone(pieces), piece{start: size, end: size}) {
		for begin < p.start {
			n, err := unix.Pread(from, buf[:min(int64(len(buf)), p.start-begin)], begin)
			if err == nil && n == 0 {
				err = unix.EIO // somebody has cut the file outside the mount
			}
			if err == nil {
				_, err = unix.Pwrite(to, buf[:n], at)
			}
			if err != nil {
				return err
			}
			begin, at = begin+int64(n), at+int64(n)
		}
		begin = p.end
	}
	return nil
}

// gaps are the places of records that were taken out of files, as far as others may have
// unfinished records behind them.
type gaps struct {
	mu   sync.Mutex // guards what follows
	seq  uint64
	list []gap
}

// gap is one: of size bytes, before the byte that was at the end of it.
type gap struct {
	seq       uint64
	key       inoKey
	end, size int64
}

// maxGaps bounds how many are remembered. A record of before the oldest is left alone.
const maxGaps = 256

func (g *gaps) last() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seq
}

// add notes that the pieces were taken out of a file.
func (g *gaps) add(key inoKey, pieces []piece) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range slices.Backward(pieces) { // so that the places of the others stay right
		g.seq++
		g.list = append(g.list, gap{g.seq, key, p.end, p.end - p.start})
	}
	if n := len(g.list) - maxGaps; n > 0 {
		g.list = slices.Clone(g.list[n:])
	}
}

// follow moves a record to where it stands now; false if that is not known any more.
func (g *gaps) follow(o *openRecord) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o.gaps == g.seq {
		return true
	}
	if len(g.list) == 0 || g.list[0].seq > o.gaps+1 {
		return false
	}
	for _, c := range g.list {
		if c.seq <= o.gaps || c.key != o.key {
			continue
		}
		for i, p := range o.pieces {
			if p.start >= c.end {
				o.pieces[i].start, o.pieces[i].end = p.start-c.size, p.end-c.size
			}
		}
	}
	o.gaps = g.seq
	return true
}

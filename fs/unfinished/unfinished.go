// Package unfinished remembers where the beginnings of lines stand that programs have
// appended to files and not finished, so that the line of one that is killed can be taken
// out again. Others may append meanwhile: a line that is written in several pieces stands
// in several places.
//
//	file:    …another's line⏎ | {"a":  | another's line⏎ | 1,    |
//	                            piece 1                   piece 2   of one Record
//
// A Record is one such line of one writer. It ends with a newline, and is given up where
// nobody could tell any more what belongs to it: after a pause, after too many pieces, and
// in another file. Its bytes are known by a checksum, for something else may stand there by
// the time of the writer's end.
//
// When a Record is taken out, what stands behind it moves towards the beginning. Gaps are
// the places of those that were taken out, by which the Records of others are moved when
// they are next looked at. Only the last gaps are known; a Record of before them is left
// alone.
//
// Gaps.mu guards the gaps, and nobody takes another mutex while holding it. A Record is
// its owner's to guard.
package unfinished

import (
	"bytes"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxSize is up to how many bytes of one line are remembered.
	MaxSize = 1 << 20
	// Pause is how long the pieces of one line may be apart. It is several times as long
	// as a piece is held back whose writer is at work.
	Pause = 10 * time.Second
	// maxPieces bounds the pieces that are remembered of one line.
	maxPieces = 256
	// maxGaps bounds the gaps that are remembered.
	maxGaps = 256
)

// File is the identity of a file.
type File struct{ Dev, Ino uint64 }

// Record is what is in a file of a line that is not finished. The zero Record is none.
type Record struct {
	file   File
	pieces []piece
	at     time.Time // of the last one
	gaps   uint64    // the last gap that the pieces' places allow for
}

// piece is a place in a file, and a checksum of what was written there.
type piece struct {
	start, end int64
	sum        uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Add notes that b, which does not end with a newline, was appended to a file, which has
// the size end now: to the record, or as the beginning of the next one.
func (r *Record) Add(now time.Time, f File, end int64, b []byte, g *Gaps) {
	i := bytes.LastIndexByte(b, '\n')
	rest := b[i+1:]
	goesOn := i < 0 && r.file == f && r.size()+int64(len(b)) <= MaxSize && len(r.pieces) < maxPieces && now.Sub(r.at) < Pause
	if !goesOn || !g.Follow(r) {
		*r = Record{file: f, gaps: g.last()}
	}
	r.at = now
	start := end - int64(len(rest))
	if n := len(r.pieces); n > 0 && r.pieces[n-1].end == start {
		last := &r.pieces[n-1]
		last.end, last.sum = end, crc32.Update(last.sum, castagnoli, rest)
		return
	}
	r.pieces = append(r.pieces, piece{start, end, crc32.Checksum(rest, castagnoli)})
}

// Forget makes it none.
func (r *Record) Forget() { *r = Record{} }

// IsNone reports whether no line is unfinished.
func (r *Record) IsNone() bool { return len(r.pieces) == 0 }

// IsIn reports whether the record is one in a file.
func (r *Record) IsIn(f File) bool { return r.file == f }

// AtEnd reports whether the record is the end of a file of that size, and nothing else,
// and where it begins then.
func (r *Record) AtEnd(size int64) (start int64, ok bool) {
	if len(r.pieces) != 1 || r.pieces[0].end != size {
		return 0, false
	}
	return r.pieces[0].start, true
}

func (r *Record) size() (n int64) {
	for _, p := range r.pieces {
		n += p.end - p.start
	}
	return n
}

// Content reads the record; nil if it no longer stands where it was written.
func (r *Record) Content(fd int) []byte {
	all := make([]byte, 0, r.size())
	for _, p := range r.pieces {
		part := all[len(all) : len(all)+int(p.end-p.start)]
		if n, err := unix.Pread(fd, part, p.start); err != nil || n != len(part) || crc32.Checksum(part, castagnoli) != p.sum {
			return nil
		}
		all = all[:len(all)+len(part)]
	}
	return all
}

// CopyRest makes to what the first size bytes of from are without the record.
func (r *Record) CopyRest(to, from int, size int64) error {
	if err := unix.Ftruncate(to, 0); err != nil {
		return err
	}
	buf := make([]byte, min(size, 1<<20))
	begin, at := int64(0), int64(0)
	for _, p := range append(slices.Clone(r.pieces), piece{start: size, end: size}) {
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

// Gaps are the places of records that were taken out of files, as far as others may have
// unfinished records behind them. There are none at first.
type Gaps struct {
	mu   sync.Mutex // guards what follows
	seq  uint64
	list []gap
}

// gap is one: of size bytes, before the byte that was at the end of it.
type gap struct {
	seq       uint64
	file      File
	end, size int64
}

func (g *Gaps) last() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seq
}

// Add notes that a record was taken out of its file.
func (g *Gaps) Add(r *Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range slices.Backward(r.pieces) { // so that the places of the others stay right
		g.seq++
		g.list = append(g.list, gap{g.seq, r.file, p.end, p.end - p.start})
	}
	if n := len(g.list) - maxGaps; n > 0 {
		g.list = slices.Clone(g.list[n:])
	}
}

// Follow moves a record to where it stands now; false if that is not known any more.
func (g *Gaps) Follow(r *Record) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.gaps == g.seq {
		return true
	}
	if len(g.list) == 0 || g.list[0].seq > r.gaps+1 {
		return false
	}
	for _, c := range g.list {
		if c.seq <= r.gaps || c.file != r.file {
			continue
		}
		for i, p := range r.pieces {
			if p.start >= c.end {
				r.pieces[i].start, r.pieces[i].end = p.start-c.size, p.end-c.size
			}
		}
	}
	r.gaps = g.seq
	return true
}

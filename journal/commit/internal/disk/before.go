package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// A commit in place leaves nothing of the old version where it has copied, so that its
// intent says what was there: a checksum for each sector. By these a recovery tells half
// of a commit, whose every sector is of the old version or of the new one, from what
// somebody has written since the crash.

// maxSummed is the size in bytes of an old version up to which its checksums are recorded:
// those of a larger one would take more of the journal than they are worth.
const maxSummed = 2 << 20

// Before adds to in what the file target holds before it becomes a copy of shadow.
func Before(shadow, target int, in *journal.Intent) error {
	var now, then unix.Stat_t
	if err := errors.Join(unix.Fstat(target, &now), unix.Fstat(shadow, &then)); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	in.Size, in.Sums = now.Size, ""
	if now.Size > maxSummed {
		return nil
	}
	sums := make([]byte, 0, 4*(now.Size/sectorSize+2))
	cut := pieces{before: now.Size, after: then.Size}
	err := ReadRange(target, 0, now.Size, func(at int64, b []byte) bool {
		for len(b) > 0 {
			n := cut.next(at, len(b))
			sums = binary.LittleEndian.AppendUint32(sums, journal.UpdateChecksum(0, b[:n]))
			at, b = at+int64(n), b[n:]
		}
		return true
	})
	in.Sums = string(sums)
	return err
}

// pieces are the sectors of a file, cut besides where its versions end: what is copied, cut
// off or left alone is whole pieces.
type pieces struct{ before, after int64 } // the sizes of the two versions

// next returns how many of the n bytes at the offset at are in the piece that begins there.
func (p pieces) next(at int64, n int) int {
	end := min(at+int64(n), (at/sectorSize+1)*sectorSize)
	for _, size := range []int64{p.before, p.after} {
		if at < size {
			end = min(end, size)
		}
	}
	return int(end - at)
}

// Holding says whose content is in a file that was being written in place.
type Holding int

// What a file holds.
const (
	HoldsOurs   Holding = iota // the old version, the new one, or some of each
	HoldsOthers                // nothing of the new version, and something that the old one has not
	HoldsMore                  // something that neither has, as far as can be told, over what may be half of the new one
)

// WhatHolds looks what the file target of in holds, which becomes a copy of shadow. Zeros
// are nobody's: a power cut leaves them where it takes bytes away.
func WhatHolds(shadow, target int, in journal.Intent) (Holding, error) {
	var now, then unix.Stat_t
	if err := errors.Join(unix.Fstat(target, &now), unix.Fstat(shadow, &then)); err != nil {
		return HoldsMore, os.NewSyscallError("fstat", err)
	}
	c := comparison{pieces: pieces{before: in.Size, after: then.Size}, known: in.Sums != "", sums: []byte(in.Sums)}
	var failed error
	theirs := make([]byte, 64<<10)
	err := ReadRange(target, 0, now.Size, func(at int64, b []byte) bool {
		var n int
		if n, failed = readFull(shadow, theirs[:len(b)], at); failed != nil {
			return false
		}
		return c.add(at, b, theirs[:n])
	})
	if err := errors.Join(err, failed); err != nil {
		return HoldsMore, err
	}
	return c.holding(), nil
}

// comparison goes through the pieces of a file, from the first.
type comparison struct {
	pieces
	known bool   // the sums were recorded
	sums  []byte // of the old version, of the pieces to come

	isNew   bool // a piece is of the new version
	isOther bool // one is of neither
}

// add goes through the bytes b at the offset at, where the new version has those. It
// returns false when no more need be known.
func (c *comparison) add(at int64, b, anew []byte) bool {
	for len(b) > 0 {
		n := c.next(at, len(b))
		isOld := len(c.sums) >= 4 && binary.LittleEndian.Uint32(c.sums) == journal.UpdateChecksum(0, b[:n])
		isNew := n <= len(anew) && bytes.Equal(b[:n], anew[:n])
		if len(bytes.TrimLeft(b[:n], "\x00")) > 0 {
			c.isNew = c.isNew || isNew && !isOld
			c.isOther = c.isOther || !isNew && !isOld
		}
		at, b, anew, c.sums = at+int64(n), b[n:], anew[min(n, len(anew)):], c.sums[min(4, len(c.sums)):]
	}
	return !c.isOther || c.known && !c.isNew
}

func (c *comparison) holding() Holding {
	switch {
	case !c.isOther:
		return HoldsOurs
	case c.known && !c.isNew:
		return HoldsOthers
	}
	return HoldsMore
}

// readFull reads from fd at the offset at until b is full or the file ends.
func readFull(fd int, b []byte, at int64) (n int, err error) {
	for n < len(b) {
		m, err := unix.Pread(fd, b[n:], at+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, os.NewSyscallError("pread", err)
		case m == 0:
			return n, nil
		default:
			n += m
		}
	}
	return n, nil
}

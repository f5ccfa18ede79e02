package record

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// ID is the content id of which a record has the text: see IsContentID.
type ID [16]byte

// IDOf is the content id of a text. That of a text which is none is of no use.
func IDOf(text string) (id ID) {
	var digits [2 * len(id)]byte
	_, _ = hex.Decode(id[:], digits[:copy(digits[:], text)])
	return id
}

// RandomID is an id that no content has.
func RandomID() (id ID) {
	binary.LittleEndian.PutUint64(id[:], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	return id
}

func (id ID) String() string {
	var text [2 * len(id)]byte
	hex.Encode(text[:], id[:])
	return string(text[:])
}

// Hash takes bytes of the id that are random.
func (id ID) Hash() uint32 { return binary.LittleEndian.Uint32(id[4:]) }

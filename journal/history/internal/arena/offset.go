package arena

// Offset is a place in a file, or a number of that size, in five bytes; 0 is none.
type Offset [5]byte

// OffsetOf is the offset with that number.
func OffsetOf(n int64) (o Offset) {
	o[0], o[1], o[2], o[3], o[4] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32)
	return o
}

// Number is the number of an offset.
func (o *Offset) Number() int64 {
	return int64(o[0]) | int64(o[1])<<8 | int64(o[2])<<16 | int64(o[3])<<24 | int64(o[4])<<32
}

package history

// offset is a place in the log, or a number of that size; 0 is none.
type offset [5]byte

func offsetOf(n int64) (o offset) {
	o[0], o[1], o[2], o[3], o[4] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32)
	return o
}

func (o *offset) get() int64 {
	return int64(o[0]) | int64(o[1])<<8 | int64(o[2])<<16 | int64(o[3])<<24 | int64(o[4])<<32
}

package knowledge

import "errors"

// A log of the journal takes no zero bytes in a record, by which it tells sectors that
// were lost. Records are therefore stuffed as by Cheshire and Baker, "Consistent
// Overhead Byte Stuffing" (1999): each run of up to 254 bytes without a zero stands
// behind a byte that says how long it is, and a run that is shorter ends at a zero.
const stuffedRun = 0xff

var errStuffing = errors.New("wrong byte stuffing")

// stuff appends b to out without zero bytes.
func stuff(out, b []byte) []byte {
	head := len(out)
	out = append(out, 1)
	for i, c := range b {
		if c != 0 {
			out = append(out, c)
			out[head]++
		}
		if c == 0 || out[head] == stuffedRun && i+1 < len(b) {
			head = len(out)
			out = append(out, 1)
		}
	}
	return out
}

// unstuff gives back what stuff was given.
func unstuff(b []byte) ([]byte, error) {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		n := int(b[0])
		if n == 0 || n > len(b) {
			return nil, errStuffing
		}
		out = append(out, b[1:n]...)
		b = b[n:]
		if n < stuffedRun && len(b) > 0 {
			out = append(out, 0)
		}
	}
	return out, nil
}

// Package crashload is the load of the crash tests: a process that saves files in
// every way that programs use, as fast as it can, and writes down what was
// acknowledged. Its files carry their version number and a checksum, so that a
// file can be judged by itself: it is one complete version or it is not.
//
// The log has one line for each step, written before the operation begins
// ("begin NAME N", "remove NAME N") and after it was acknowledged ("done NAME N",
// "removed NAME N"). It lies outside the mount.
package crashload

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
)

// ErrTorn is the error of a file that is not one complete version.
var ErrTorn = errors.New("not a complete version")

// Encode is the content of version n of a file: its number, a body of up to
// 40 KiB that depends on the number alone, and the SHA-256 of all that.
func Encode(n int) []byte { return encode(n, 1) }

// EncodeLarge is Encode with a body of 16 MiB, which takes a while to copy.
func EncodeLarge(n int) []byte {
	const size = 16 << 20
	return encode(n, size)
}

func encode(n, size int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	out := fmt.Appendf(nil, "version %d\n", n)
	piece := r.IntN(40 << 10)
	if n%3 == 0 {
		piece = r.IntN(200) // small files take other paths
	}
	body := make([]byte, 1+piece)
	for i := range body {
		body[i] = byte('a' + r.IntN(26))
	}
	for out = append(out, body...); len(out) < size; {
		out = append(out, body...)
	}
	sum := sha256.Sum256(out)
	return fmt.Appendf(out, "\n%x\n", sum)
}

// Decode returns the number of the version that b is.
func Decode(b []byte) (int, error) {
	var n int
	if _, err := fmt.Sscanf(string(b[:min(len(b), 40)]), "version %d\n", &n); err != nil {
		return 0, fmt.Errorf("%w: begins with %.40q", ErrTorn, b)
	}
	if !bytes.Equal(b, Encode(n)) && !bytes.Equal(b, EncodeLarge(n)) {
		return 0, fmt.Errorf("%w: says it is version %d, and is not in its %d bytes", ErrTorn, n, len(b))
	}
	return n, nil
}

// Line is record n of an append-only file.
func Line(n int) string {
	text := fmt.Sprintf("record %d ", n)
	return fmt.Sprintf("%s%x\n", text, sha256.Sum256([]byte(text)))
}

// DecodeLines checks that b consists of records 0, 1, 2, ..., all complete,
// with none missing, and returns how many there are.
func DecodeLines(b []byte) (int, error) {
	n := 0
	for line := range bytes.Lines(b) {
		if string(line) != Line(n) {
			return n, fmt.Errorf("%w: line %d is %.80q", ErrTorn, n, line)
		}
		n++
	}
	return n, nil
}

// SharedLine is line n of the load with that name in Shared. Lines differ in
// length, so that a part of one is never another.
func SharedLine(load string, n int) string {
	text := fmt.Sprintf("%s %d %s", load, n, strings.Repeat("x", n%200))
	return fmt.Sprintf("%s %x\n", text, sha256.Sum256([]byte(text)))
}

// DecodeShared checks that b consists of whole lines, those of each load in their
// order, and returns their numbers by load.
func DecodeShared(b []byte) (map[string][]int, error) {
	lines := map[string][]int{}
	for line := range bytes.Lines(b) {
		var load string
		var n int
		_, err := fmt.Sscan(string(line), &load, &n)
		if err != nil || string(line) != SharedLine(load, n) {
			return lines, fmt.Errorf("%w: line %.100q", ErrTorn, line)
		}
		if have := lines[load]; len(have) > 0 && have[len(have)-1] >= n {
			return lines, fmt.Errorf("line %d of %s comes after line %d", n, load, have[len(have)-1])
		}
		lines[load] = append(lines[load], n)
	}
	return lines, nil
}

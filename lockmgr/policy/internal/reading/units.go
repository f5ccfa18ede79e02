package reading

import (
	"strconv"
	"strings"
	"time"
)

// Duration is a time span that reads and prints as in time.ParseDuration.
type Duration time.Duration

// String returns the duration as time.Duration prints it.
func (d Duration) String() string { return time.Duration(d).String() }

// Day is the unit of an age.
const Day = 24 * time.Hour

// AgeText is what Age reads.
func AgeText(d time.Duration) string {
	if d > 0 && d%Day == 0 {
		return strconv.FormatInt(int64(d/Day), 10) + "d"
	}
	return Duration(d).String()
}

// Bytes is a size that reads and prints as in "10MiB".
type Bytes int64

var byteUnits = []struct {
	name string
	size Bytes
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String writes b with the largest unit that leaves no fraction.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b >= u.size && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// parseBytes reads a size as String writes it, in whole units.
func parseBytes(s string) (Bytes, bool) {
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || Bytes(n) > (1<<63-1)/u.size {
			return 0, false
		}
		return Bytes(n) * u.size, true
	}
	return 0, false
}

package rejected

import (
	"strings"
	"testing"
)

// FuzzRejectedTime reads any name in the rejected store, where somebody may have put
// something by hand.
func FuzzRejectedTime(f *testing.F) {
	f.Add("20260301T091244.117480394-5d1c8a05")
	f.Add("20260301T091244.117480394-5D1C8A05")
	f.Add("20260301T091244,117480394-5d1c8a05")
	f.Fuzz(func(t *testing.T, id string) {
		if at, ok := timeOf(id); ok && (strings.ContainsAny(id, "/\x00") || !strings.HasPrefix(id, at.Format(TimeFormat)+"-")) {
			t.Errorf("%q is of %v", id, at)
		}
	})
}

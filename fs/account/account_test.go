package account

import (
	"testing"

	"pgregory.net/rapid"
)

// What users take and give back in any order is what the book says, no user gets more
// than the limits say, and each gets its share whatever the others have.
func TestBook(t *testing.T) {
	limits := Limits{User: 100, Share: 10, Total: 150}
	rapid.Check(t, func(rt *rapid.T) {
		b := New(limits, func(uid uint32) bool { return uid == 0 })
		has := map[uint32][]int64{}
		sum := func(uid uint32) (n int64) {
			for _, x := range has[uid] {
				n += x
			}
			return n
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if rapid.IntRange(0, 9).Draw(rt, "other limits") == 0 {
				limits.Share = int64(rapid.IntRange(5, 20).Draw(rt, "share"))
				b.SetLimits(limits)
			}
			uid := uint32(rapid.IntRange(0, 4).Draw(rt, "uid"))
			if held := has[uid]; len(held) > 0 && rapid.IntRange(0, 2).Draw(rt, "give") == 0 {
				i := rapid.IntRange(0, len(held)-1).Draw(rt, "which")
				b.Give(uid, held[i])
				has[uid] = append(held[:i:i], held[i+1:]...)
				continue
			}
			n := int64(rapid.IntRange(1, 120).Draw(rt, "bytes"))
			beyond := max(sum(uid)+n-limits.Share, 0)
			for other := range uint32(5) {
				if other != 0 && other != uid {
					beyond += max(sum(other)-limits.Share, 0)
				}
			}
			want := uid == 0 || sum(uid) == 0 || sum(uid)+n <= limits.Share || sum(uid)+n <= limits.User && beyond <= limits.Total
			if fits := b.Fits(uid, n); fits != want {
				rt.Fatalf("user %d with %d may have %d more: %v, want %v", uid, sum(uid), n, fits, want)
			}
			if b.Take(uid, n) != want {
				rt.Fatalf("Take and Fits differ")
			}
			if want {
				has[uid] = append(has[uid], n)
			}
		}
		for uid := range uint32(5) {
			if uid != 0 && b.Used(uid) != sum(uid) {
				rt.Fatalf("user %d has %d, want %d", uid, b.Used(uid), sum(uid))
			}
			for _, n := range has[uid] {
				b.Give(uid, n)
			}
		}
		if b.beyond != 0 || len(b.users) != 0 {
			rt.Fatalf("left: %d, %v", b.beyond, b.users)
		}
	})
}

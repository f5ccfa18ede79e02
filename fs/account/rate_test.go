package account

import (
	"testing"
	"time"
)

// A user who has spent a burst waits for the rate; nobody else does.
func TestRate(t *testing.T) {
	r := NewRate(100, 10, func(uid uint32) bool { return uid == 0 })
	now := time.Unix(1000, 0)
	spend := func(uid uint32, n int64, want bool) {
		t.Helper()
		if got := r.Spend(uid, n, now); got != want {
			t.Errorf("user %d spends %d: %v", uid, n, got)
		}
	}
	spend(1, 60, true)
	spend(1, 60, true) // beyond the burst, by the last piece
	spend(1, 1, false)
	spend(2, 1000, true)
	spend(2, 1, false)
	for range 100 {
		spend(0, 1000, true)
	}
	now = now.Add(2 * time.Second) // 120-20 of user 1
	spend(1, 1, false)
	now = now.Add(time.Second / 10)
	spend(1, 1, true)
	now = now.Add(time.Hour)
	spend(1, 100, true)
	spend(1, 1, false)
}

// Users who have nothing spent are forgotten.
func TestRateForgets(t *testing.T) {
	r := NewRate(100, 10, func(uint32) bool { return false })
	now := time.Unix(1000, 0)
	for uid := range uint32(mostSpenders) {
		r.Spend(uid, 10, now)
	}
	r.Spend(1<<20, 10, now.Add(time.Minute))
	if n := len(r.spent); n != 1 {
		t.Errorf("%d users are known", n)
	}
}

package fs

import (
	"testing"
	"testing/synctest"
	"time"

	"latchfs/fs/account"
)

// Beside another user's requests, a user's looks into .locks go one after the other, and
// leave that user's other requests and those of others alone.
func TestOneLookAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		everybody := func(uint32) bool { return false }
		here := &account.Presence{}
		s := Requests{&FS{turns: account.NewTurns(2, turnPatience, here, everybody), views: account.NewTurns(1, viewPatience, here, everybody)}}
		ask := func(uid uint32, node uint64) (end func(), waited time.Duration) {
			began := time.Now()
			turn := s.takeTurn(&Request{Node: node, UID: uid})
			return turn.end, time.Since(began)
		}
		const alice, bob, file = 1, 2, 7
		end, _ := ask(alice, file)
		end()
		look, waited := ask(bob, virtualRoot)
		if waited != 0 {
			t.Errorf("the first look waited for %v", waited)
		}
		second := make(chan time.Duration)
		go func() {
			end, waited := ask(bob, virtualRoot)
			end()
			second <- waited
		}()
		synctest.Wait()
		for _, uid := range []uint32{alice, bob} {
			for _, node := range []uint64{file, virtualRoot} {
				if uid == bob && node == virtualRoot {
					continue
				}
				end, waited := ask(uid, node)
				if end(); waited != 0 {
					t.Errorf("user %d waited for %v", uid, waited)
				}
			}
		}
		time.Sleep(3 * time.Millisecond)
		look()
		if waited := <-second; waited != 3*time.Millisecond {
			t.Errorf("the second look waited for %v", waited)
		}
	})
}

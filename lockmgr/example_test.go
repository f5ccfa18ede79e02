package lockmgr_test

import (
	"context"
	"errors"
	"fmt"

	"latchfs/lockmgr"
)

func Example() {
	table := lockmgr.New(lockmgr.Options{})
	anna, bert := lockmgr.Owner{PID: 101, Start: 1}, lockmgr.Owner{PID: 102, Start: 2}

	a, err := table.Acquire(lockmgr.Request{Keys: []lockmgr.Key{"state.json"}, Mode: lockmgr.Exclusive, Owner: anna})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := table.Acquire(lockmgr.Request{Keys: []lockmgr.Key{"state.json"}, Mode: lockmgr.Shared, Owner: bert})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("bert waits for", table.Conflicts(b)[0].Owner)

	table.Release(a)
	if err := b.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("bert has it, with token", b.Token())
	table.Release(b)
	// Output:
	// bert waits for pid 101
	// bert has it, with token 2
}

// Whoever reads first and writes later takes an update lock: of two who did so
// with shared ones, the second to upgrade would be refused.
func ExampleTable_Upgrade() {
	table := lockmgr.New(lockmgr.Options{})
	request := lockmgr.Request{Keys: []lockmgr.Key{"state.json"}, Mode: lockmgr.Update, NoWait: true}

	request.Owner = lockmgr.Owner{PID: 101, Start: 1}
	l, err := table.Acquire(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	request.Owner = lockmgr.Owner{PID: 102, Start: 2}
	_, err = table.Acquire(request)
	fmt.Println(err, errors.Is(err, lockmgr.ErrWouldBlock))

	u, err := table.Upgrade(l, lockmgr.Exclusive, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.Err(), u.Held(), u.Request().Mode)
	// Output:
	// lock would block: update session lock on "state.json" by pid 101 true
	// lock replaced true exclusive
}

package lockmgr_test

import (
	"context"
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
	fmt.Println("bert waits for", table.Conflicts(b, 1)[0].Owner)

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

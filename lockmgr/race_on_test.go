//go:build race

package lockmgr

// raced tells that the race detector is on, which makes the model several times slower
// and has nothing to find in it: it is one goroutine.
const raced = true

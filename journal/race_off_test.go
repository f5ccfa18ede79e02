//go:build !race

package journal

// manyChanges is what a journal has behind it after some time.
const manyChanges = 1_000_000

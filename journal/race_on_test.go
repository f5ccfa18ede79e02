//go:build race

package journal

// manyChanges is a million where the race detector does not make each take long.
const manyChanges = 100_000

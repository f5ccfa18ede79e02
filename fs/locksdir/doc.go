// Package locksdir renders the virtual directory `.locks/`: who holds what, who
// waits, what was refused and why, as files that `ls`, `cat`, `jq`, `tail -f`
// and `watch` can read.
//
// It is pure rendering. It knows neither FUSE nor the lock table nor the
// journal; what it shows it asks of a Source, the clock included, and it does
// no I/O. Nothing it shows is ever stored.
package locksdir

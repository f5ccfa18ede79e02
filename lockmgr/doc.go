// Package lockmgr is the lock table: who holds what, who waits for whom, and
// who comes next. It does no I/O, has no clock and knows no paths.
package lockmgr

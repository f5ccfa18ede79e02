//go:build !race

package lockmgr

const raced = false

//go:build !amd64

package main

var legacyChanges []uint32

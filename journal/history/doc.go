// Package history knows the earlier versions of files: which there are, by whom
// they were made, when, and from what base. What is kept of their content lies
// beside its log.
package history

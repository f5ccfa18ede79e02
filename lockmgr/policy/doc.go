// Package policy says which rules hold for a path.
//
// A policy is an ordered list of rules and a table of defaults, written in
// TOML:
//
//	builtin = true            # false: without the built-in rules
//
//	[defaults]
//	mode       = "atomic"     # "atomic", "live" or "readonly"
//	wait       = "30s"        # how long to queue for a lock; "0s" fails at once
//	durability = "full"       # "full", "ordered" or "lazy"
//	append     = "record"     # "record" or "session"
//	on-kill    = "rollback"   # "rollback" or "commit"
//
//	[[rule]]
//	glob = ["state/**/*.json", "todo.json"]
//	wait = "5s"
//
// # Which rule decides
//
// The first rule with a matching glob decides as a whole; what it leaves unset
// comes from the defaults, never from a later rule. The rules of the file come
// before the built-in ones (see Default), so that a file can overrule them.
//
// # Globs
//
// Globs are matched against paths relative to the data root, in the syntax of
// github.com/bmatcuk/doublestar, case-sensitively:
//
//	any run of characters but '/'                  *
//	any number of directories, also none           ** as a whole component
//	one character but '/'                          ?
//	one of a class, none of it                     [a-z] [!a-z]
//	alternatives                                   {a,b}
//	the character c itself                         \c
//
// As in .gitignore, a glob without '/' matches the last component at any
// depth: "*.db" is "**/*.db". One with a '/' matches the whole path; a leading
// '/' anchors without adding a component: "/*.db" is a database in the root. A
// glob never matches because one of a path's directories matches: a directory
// with everything below it is "dir/**", at any depth "**/dir/**". A trailing '/',
// an empty component, "." and ".." can match nothing and are refused.
//
// # Strictness
//
// An unknown key, a key of the wrong type, an unknown word, a malformed glob or
// duration is an error that names file, line and reason; all of them are
// reported at once. A policy that was not understood is never in force.
//
// The package reads a file when asked to (Load) and does no other I/O.
package policy

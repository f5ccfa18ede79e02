// Package policy says which rules hold for a path.
//
// A policy is an ordered list of rules, a table of defaults and a list of
// aliases, written in TOML:
//
//	builtin   = true          # false: without the built-in rules
//	actor-env = ["LATCHFS_ACTOR", "CLAWDBOT_SESSION_ID"]
//
//	[defaults]
//	mode       = "atomic"     # "atomic", "live" or "readonly"
//	live-if    = ["PG_VERSION", "ibdata1", "aria_log_control", "WiredTiger", "CURRENT+MANIFEST-*"]
//	wait       = "30s"        # how long to queue for a lock; "0s" fails at once
//	durability = "auto"       # "auto", "full", "ordered" or "lazy"
//	append     = "record"     # "record" or "session"
//	on-kill    = "auto"       # "auto", "rollback" or "commit"
//	grow       = "2s"         # when new output appears that is still open; "never"
//	ttl        = "15m"        # a lock is stale after that long without life; "0s": never
//	on-stale   = "keep"       # "keep" or "steal"
//	key        = "file"       # "file", "directory" or "group:NAME"
//	history    = 10           # how many earlier versions of a file are kept
//
//	lost-update = "refuse"    # "refuse", "strict", "warn", "serialize", "adaptive", "merge" or "off"
//	insist      = "obey"      # "obey" or "never"
//	claim-ttl   = "30s"       # how long a read keeps others away, where reads claim
//	fade        = "10m"       # how long it counts that a relative has read
//	observers   = []          # programs that never write what they have read
//	strangers   = "ignore"    # "ignore", "together" or "refuse"
//
//	validate = []             # of "json", "jsonl", "toml", "yaml", "non-empty"
//	max-size = "0B"           # the largest file that is accepted; "0B": any
//	command  = []             # a program that judges the content, with arguments
//	command-timeout = "10s"   # after which it has refused
//	command-user = "nobody"   # as whom it runs where latchfs is root
//
//	[history]                 # of all files together; the oldest goes first
//	max-bytes = "1GiB"
//	max-age   = "90d"         # "0s": any age
//
//	[rejected]                # the same for the bytes of refused writes
//	max-bytes = "256MiB"
//	max-age   = "30d"
//
//	[[rule]]
//	glob = ["state/**/*.json", "todo.json"]
//	wait = "5s"
//
//	[[alias]]
//	name  = "app"
//	roots = ["main", "worktrees/*"]
//
//	[[claim]]
//	glob   = ["*.lock"]
//	format = "flock"          # "beads", "clawdbot", "lock/v1", "owner-dir" or "flock"
//	covers = "file"           # "file", "directory" or "name"
//
// The values above are the defaults, but for the rule, the alias and the claim, which
// have none.
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
// # Directories of databases
//
// A database tells its directory by a file of a name of its own. A path whose
// decided mode is "atomic" is live if a directory above it, at any depth, holds one
// of the markers in live-if: live-if = ["PG_VERSION"] makes everything live in the
// directory that holds a PG_VERSION, and below it. A marker is the name of a file,
// or a glob for one, in the syntax above without '/'. Where one name would be too
// common, names joined by '+' must all be there: "CURRENT+MANIFEST-*". Directories
// and symbolic links mark nothing, nor does, in a directory that others may write to, a
// file that belongs neither to the directory's owner nor to root. The marker file itself is created before there is
// a marker, and is an atomic file until then.
//
// A rule with live-if = [] keeps what it decides for atomic. The package does not
// look for markers, for it sees no disk: its caller does.
//
// # Leases
//
// A lock's lease ends when its holder has shown no life for the ttl; heartbeats
// are due every third of it, so that it is at least 100ms. What then happens is
// on-stale: with "keep" the lock is shown as stale and somebody may force it, with
// "steal" the next waiter takes it unforced. Either way it is a matter of sessions
// and guards, and the old holder's late commit is refused.
//
// # Writers that were stopped, and output that grows
//
// A program that dies by a signal with a file open has not finished it. on-kill says
// what becomes of the file:
//
//	auto        an existing file keeps its old version, and the bytes are kept aside;
//	            a new file becomes what was written if the program was asked to stop
//	            (Ctrl-C, kill, timeout), and does not appear if it was killed (SIGKILL)
//	            or crashed; what was synced (fsync) stays in any case
//	rollback    the old version stays, or the new file does not appear; the bytes are
//	            kept aside
//	commit      the file becomes what was written
//
// With append = "record" the same decides about the unfinished last record of a
// program that was killed or crashed: unless on-kill is "commit", it is taken off
// the file and kept aside.
//
// A new file that is the standard output or error of a program ("server > out.txt")
// appears when it is closed, or when it has been open for the time of grow: then it
// is live until it is closed, so that `tail -f` can follow it.
//
// # Lost updates
//
// A change loses another's when it is based on a version that has been replaced
// since: two programs read a file, both write back what they made of it, and the
// second undoes the first. lost-update says what becomes of the second (DESIGN 6).
// What a process has read is known of it for as long as it runs, and of up to three
// of its ancestors for the time of fade.
//
//	refuse      its open or rename fails with EBUSY; bytes are kept aside; a program
//	            that makes the change again is obeyed, unless insist = "never"
//	strict      as refuse with insist = "never", and the removal of a file that has
//	            changed fails, too
//	warn        it is obeyed, with an event and a warning in the log
//	serialize   who reads claims the file until it has written, ended, or read
//	            nothing for claim-ttl; the next who wants to read waits for that
//	adaptive    serialize, for programs that were seen to write back what they read
//	merge       both changes are joined; where that cannot be, refuse
//	off         it is obeyed, as on a plain directory
//
// Observers are programs that read and never write back: their reads claim nothing
// and wait for no claim. Each is given by the name of its process or by the
// absolute path of its executable or script, as a glob: "jq", "/usr/bin/node",
// "**/dashboard.py". One without a '/' matches the last component of those paths,
// too.
//
// Strangers are callers in another pid namespace, all of which have the pid 0 for
// the mount. With "ignore" their reads are not noted and their writes not checked;
// with "together" all of them count as one process; with "refuse" they may create
// files, but not replace one that they could have read: that fails with EBUSY.
//
// # Which lock a file has
//
// With key = "file" each file has a lock of its own. "directory" gives one to all
// that is in one directory, but not in directories below it; "group:NAME" gives
// one to all for which the rule decides, wherever they are.
//
// An alias makes copies of a tree one: a path REL below any of its roots is, for
// the lock table, the path REL below every other root. Roots are globs as above,
// but always for the whole path of a directory: "main" is the directory of that
// name in the data root only. "." is the data root. What a root matches is a root,
// and not aliased itself; therefore a root that ends in "**", which matches all
// that is below, is refused.
//
// The first alias with a root among a path and the directories above it decides,
// as the first rule does. Of several of its roots the innermost counts: with
// roots = [".", "worktrees/*"] a worktree that lies inside of the main copy is a
// copy like any other, and not a part of the main one that has no counterpart.
//
// Which rule holds is decided by the path itself, not by what an alias makes of it.
// The alias maps first, and "directory" is then a directory of the aliased tree. A
// group wins over an alias. LockName has the details.
//
// Names of groups and aliases are 1 to 128 of a-z, 0-9, '-' and '_', without '-' or
// '_' at either end (SEED T2); no two aliases have the same.
//
// # Claim files
//
// A [[claim]] declares lock files that programs write by a convention of their own: while
// one is there, what it stands for is locked for its writer. Package lockfile says what
// that is, and which keys a claim has. The first claim with a matching glob decides.
//
// The rules about content and writers do not hold for a claim file: see asClaim. The
// package does not read claim files, for it sees no disk: its caller does.
//
// # Actors
//
// The variables of actor-env are looked for in the environment of a writer; the
// value of the first that is set and not empty labels what it does (SEED W11). An
// empty list looks for none.
//
// # Content
//
// What a commit would publish must be accepted by all of validate, max-size and
// command (DESIGN 4.2), or it is refused; content that was there before is not
// judged. Of these four keys, too, a rule inherits from the defaults each that it
// does not set; validate = [] and command = [] turn the default's off.
//
// # Strictness
//
// An unknown key, a key of the wrong type, an unknown word, a malformed glob or
// duration is an error that names file, line and reason; all of them are
// reported at once. A policy that was not understood is never in force.
//
// The package reads a file when asked to (Load) and does no other I/O.
package policy

// Package claimfile reads the lock files that programs write by a convention of their
// own, and judges whether one of them is stale. It is pure: the content comes as bytes,
// and what the judgement needs to know of the clock, of processes and of this host comes
// in a Look.
//
// A claim file is such a lock file where the policy declares it. The mount turns it into
// a lock that holds against everybody else; package fs does that.
//
// # The formats
//
// The numbers are those of the requirements of the systems that write them.
//
//	beads       a JSON object: holder, pid, hostname, started_at, and perhaps version (B1)
//	clawdbot    a JSON object: pid, session_id, acquired_at, hostname, operation (W2)
//	lock/v1     a JSON object: lock_version "v1", lock_name, request_id, actor, intent,
//	            intent_version, host_id, pid, created_at, last_heartbeat_at, ttl_seconds,
//	            and perhaps metadata (T3)
//	owner-dir   a directory: the file `owner` names the session in its first line, the
//	            file `record.json` is an object with reason and timestamp (M5)
//	flock       a file on which programs call flock: its content says nothing (C4)
//
// A record is written by a user, and is not trusted (T12). Of all formats:
//
//   - A file has at most 64 KiB, a text in it at most 1 KiB.
//   - JSON is one object in UTF-8, after a byte order mark or none (PowerShell writes
//     one). Names of fields are compared exactly. A field that is there twice makes the
//     record malformed, for two programs could read different values. Other fields than
//     those above are ignored.
//   - A time has a date, a time of day and, in beads and lock/v1, a zone. A time of
//     clawdbot without a zone is that of an unknown zone and says nothing, and a number
//     is a count of seconds since 1970.
//   - In lock/v1, lock_name is 1 to 128 of a-z, 0-9, '-' and '_' without '-' or '_' at
//     either end (T2), times are UTC, the last heartbeat is not before the creation, and
//     all fields but ttl_seconds and metadata are there.
//   - Nothing of a record reaches a line of a log as it is: control characters and what
//     is not printable are escaped, and long texts are cut.
//
// What does not comply is malformed. A file or an owner-dir that is still empty is
// malformed as well; ErrEmpty tells it apart, for it may be one that is being written.
//
// # Who holds a claim
//
// Two records with the same Identity are one claim, of which the second may be a
// heartbeat: beads by holder, pid and hostname, clawdbot by session_id and pid, lock/v1
// by request_id, owner-dir by owner.
//
// # When a claim is stale
//
// Hosts are compared without regard to case. "Dead" is a process id that does not exist;
// one that exists and may not be signalled is alive.
//
//	beads      the record is of this host and its process is dead (B3). A claim of
//	           another host is valid for ever, and time changes nothing.
//	clawdbot   the record is of this host and its process is dead; or there was no sign
//	           of life for longer than the rule's ttl, or its foreign-ttl for a record of
//	           another host (W5).
//	lock/v1    the last heartbeat is longer ago than ttl_seconds, or than the rule's ttl
//	           where the record has none (T7). The process id proves nothing (T13), nor
//	           does the end of the processes that wrote the record.
//	owner-dir  it was made before the last boot (M5); or its session has ended, and the
//	           last sign of life was longer ago than the rule's ttl (M6).
//	flock      never: the kernel ends such a lock with its holder.
//
// A ttl of 0 never makes a claim stale. A time of a record that lies in the future counts
// as the time when the content was made, so that no record is valid for ever by a date.
//
// A malformed record is never stale in beads (B2), whatever the rule says. Elsewhere the
// rule's malformed decides: "locked" keeps it, but for an owner-dir whose session has ended
// for longer than the rule's ttl, before it could write its owner; "free" makes it stale as soon as its
// writer has ended, or else after the shorter of the rule's ttl and foreign-ttl, because a
// record that is just being written is malformed for a moment (W10).
package claimfile

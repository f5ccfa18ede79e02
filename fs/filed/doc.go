// Package filed keeps the claims that programs file by themselves: each is a lock file
// which the policy declares (a claim file, see package claimfile), and for which the mount
// holds a lock on what the file stands for, against everybody but the program that wrote
// it and those that this has started.
//
//	          content, by who has claimed            the file is gone
//	(none) ──────────────────────────────▶ held ───────────────────────▶ (none)
//	                                       │  ▲
//	                       the lock stolen │  │ new content, by anybody
//	                                       ▼  │
//	                                       lost ──▶ (none), when its holders are dead
//
// A claim begins with the version of the file that says so, in the moment in which that is
// published: whoever writes one holds what it stands for by then, so that of two who write
// one file exactly one has the claim. The next version is the same claim if its record has
// the same identity, as that of a heartbeat; otherwise it is refused (May), unless the
// claim is stale.
//
// # Who holds it
//
// Where the format trusts the process id of the record (beads, clawdbot) and the record is
// of this host, that process does, and the claim is stale when it is dead. Elsewhere the
// nearest living process does of the one that wrote the file and its ancestors, up to an
// interactive shell: `lock.sh acquire` ends, and the script that has called it goes on
// under the claim. Where none of them lives, or the holder was killed, nobody may write what
// is claimed, and whoever may remove the file may end the claim by that.
//
// # When it ends
//
// With its file. A stale claim (claimfile.Judge) whose policy says "remove" is removed with
// its file by the mount, at once, with the line that its system logs about that and an event; a
// holder that lives has lost it then, and what it still writes there is refused. With
// "keep" it stays until somebody forces it: whoever writes or removes the file of a stale
// claim, or `latchfs steal --force`.
//
// Room.mu guards all claims. Nothing is called while it is held but the clock; claims are
// taken and given back without it, by whoever has the lock of the file's name.
package filed

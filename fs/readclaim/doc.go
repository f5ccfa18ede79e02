// Package readclaim keeps the claims of reads: the update locks that opens for reading
// take, so that who reads in order to write comes one after the other (DESIGN 6).
//
// A claim belongs to a process, at first the reader; when that exits as programs do that
// have done their work, to its nearest relative who lives: `jq . f > t && mv t f` reads in
// one process and renames in another, with the shell as their parent.
//
// It is a gate: the whole family of its owner passes, and each of them who reads claims for
// itself, so that the workers of one script wait for each other, too.
//
//	Enter, with a lock that was granted to the reader
//	  │
//	  ▼            its owner exits, and a relative lives
//	claimed ◀────────────────────────────────────────────┐
//	  │ └────────────────────────────────────────────────┘
//	  ├── Written: its family has made the next version of the file ──▶ ended, used
//	  ├── nobody of the family has read for the claim's time ─────────▶ ended in vain: marked
//	  ├── its owner was killed, has failed, or has no relatives ──────▶ ended in vain
//	  ├── Removed: the file is gone, and is not made again at once ───▶ ended in vain: marked
//	  └── Drop, Locked, or another claim of the owner on the file ────▶ ended, replaced
//
// Where others wait, further reads of the family do not prolong a claim: a program that
// reads again and again would keep them out for ever.
//
// A mark says that a process, or a program among its children, has claimed a file and not
// written it: it reads that file without a claim from then on, until it writes it.
//
// Claims.mu guards all claims and marks. While it is held the lock table is called, which
// has a mutex of its own, and Config.Ended. Nothing is waited for with it.
package readclaim

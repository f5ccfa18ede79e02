package claimfile

import (
	"strconv"
	"strings"
	"time"

	"latchfs/lockmgr/policy/lockfile"
)

// Look is what a judgement needs to know beside the record.
type Look struct {
	Now  time.Time
	Boot time.Time // when this host was started
	Host string    // its name

	// Made is when the claim got its content, as the filesystem says: better by the
	// change time, which no program can set, than by the modification time.
	Made time.Time
	// Progress is the last sign of life of the holder that was seen; zero: none.
	Progress time.Time
	// Dead tells whether no process has this id on this host (ESRCH). nil: nothing is
	// known of processes.
	Dead func(pid int32) bool
	// Gone tells whether the processes that wrote the claim have ended, with all that
	// they are descended from up to a login.
	Gone bool
}

// Verdict says whether a claim is stale.
type Verdict struct {
	Stale  bool
	Reason string // why it is stale, as "process 12345 is dead"; "" if it is not

	// Due is when time alone makes a claim stale that is not: a judgement at Due with
	// nothing else changed finds it so. Zero: time alone never does.
	Due time.Time

	Last  time.Time     // the last sign of life, from which the age counts
	Age   time.Duration // since Last, never below 0
	Limit time.Duration // the age beyond which the claim is stale; 0: it has none
}

// StaleSince is when the age went beyond the limit (T7); zero if it has not, or if there
// is no limit.
func (v Verdict) StaleSince() time.Time {
	if !v.Stale || v.Limit == 0 || v.Age <= v.Limit {
		return time.Time{}
	}
	return v.Last.Add(v.Limit)
}

// Judge tells whether a claim is stale. A record of nil is a malformed one.
func Judge(rule *lockfile.Convention, r *Record, l *Look) Verdict {
	if r == nil {
		return judgeMalformed(rule, l)
	}
	switch rule.Format {
	case lockfile.Beads: // B3: proof that the process is dead, or nothing
		return judgeProcess(r, l)
	case lockfile.Clawdbot: // W5
		if v := judgeProcess(r, l); v.Stale {
			return v
		}
		limit := rule.TTL
		if !l.ours(r) {
			limit = rule.ForeignTTL
		}
		v := l.age(latest(l.past(r.Since), l.Progress), limit)
		if v.Stale && l.Progress.After(l.past(r.Since)) {
			v.Reason = "lock is " + tenths(l.Now.Sub(l.past(r.Since))) + " old, without progress for " +
				tenths(v.Age) + " (>" + seconds(limit) + ")"
		} else if v.Stale {
			v.Reason = "lock is " + tenths(v.Age) + " old (>" + seconds(limit) + ")"
		}
		return v
	case lockfile.LockV1: // T7, T13
		limit := rule.TTL
		if r.TTL > 0 {
			limit = r.TTL
		}
		v := l.age(l.past(r.Beat), limit)
		if v.Stale {
			v.Reason = "no heartbeat for " + whole(v.Age) + " (ttl " + seconds(limit) + ")"
		}
		return v
	case lockfile.OwnerDir:
		return judgeOwnerDir(rule, r, l)
	case lockfile.Flock:
	}
	return Verdict{}
}

// judgeProcess goes by the process in the record, which says something on its host alone.
func judgeProcess(r *Record, l *Look) Verdict {
	if l.ours(r) && l.Dead != nil && l.Dead(r.PID) {
		return Verdict{Stale: true, Reason: "process " + pidText(r.PID) + " is dead"}
	}
	return Verdict{}
}

// judgeOwnerDir goes by the session that made the directory (M5, M6).
func judgeOwnerDir(rule *lockfile.Convention, r *Record, l *Look) Verdict {
	if l.beforeBoot() {
		return Verdict{Stale: true, Reason: "lock was made before the last boot"}
	}
	if !l.Gone {
		return Verdict{}
	}
	v := l.age(latest(l.past(r.Since), l.Progress), rule.TTL)
	if v.Stale {
		v.Reason = "its session has ended, without a sign of life for " + whole(v.Age) + " (>" + seconds(rule.TTL) + ")"
	}
	return v
}

// judgeMalformed goes by the rule, for there is no record.
func judgeMalformed(rule *lockfile.Convention, l *Look) Verdict {
	const reason = "lock file is malformed"
	switch {
	case rule.Format == lockfile.Beads, rule.Format == lockfile.Flock: // B2: fail safe
		return Verdict{}
	case rule.Format == lockfile.OwnerDir && l.beforeBoot():
		return Verdict{Stale: true, Reason: "lock was made before the last boot"}
	case rule.Format == lockfile.OwnerDir && l.Gone && rule.Malformed == lockfile.MalformedLocked:
		// Killed between mkdir and the owner: the session has ended all the same (M6).
		v := l.age(latest(l.past(time.Time{}), l.Progress), rule.TTL)
		if v.Stale {
			v.Reason = reason + ", and its session has ended, " + whole(v.Age) + " ago (>" + seconds(rule.TTL) + ")"
		}
		return v
	case rule.Malformed != lockfile.MalformedFree:
		return Verdict{}
	case l.Gone:
		return Verdict{Stale: true, Reason: reason}
	}
	limit := rule.TTL
	if rule.ForeignTTL > 0 && (limit == 0 || rule.ForeignTTL < limit) {
		limit = rule.ForeignTTL
	}
	if limit == 0 {
		return Verdict{Stale: true, Reason: reason}
	}
	v := l.age(l.past(time.Time{}), limit)
	if v.Stale {
		v.Reason = reason + " for " + tenths(v.Age) + " (>" + seconds(limit) + ")"
	}
	return v
}

// ours tells whether a record is of this host.
func (l *Look) ours(r *Record) bool { return l.Host != "" && strings.EqualFold(r.Host, l.Host) }

// beforeBoot tells whether the claim was made before this host was started.
func (l *Look) beforeBoot() bool { return l.Made.Before(l.Boot) }

// past is a time of a record as far as it is trusted: one in the future, or none, counts
// as Made, and that as Now at the most.
func (l *Look) past(t time.Time) time.Time {
	switch {
	case !t.IsZero() && !t.After(l.Now):
		return t
	case l.Made.After(l.Now):
		return l.Now
	}
	return l.Made
}

// age compares the time since the last sign of life with a limit, of which 0 is none.
func (l *Look) age(last time.Time, limit time.Duration) Verdict {
	v := Verdict{Last: last, Age: max(l.Now.Sub(last), 0), Limit: limit}
	switch {
	case limit <= 0:
		v.Limit = 0
	case v.Age > limit:
		v.Stale = true
	default:
		v.Due = last.Add(limit + 1) // an age of the limit is not beyond it
	}
	return v
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// seconds, tenths and whole write a duration in seconds: as it is, rounded to tenths, and
// without what is less than a second.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

func tenths(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s" }
func whole(d time.Duration) string  { return strconv.FormatInt(int64(d/time.Second), 10) + "s" }

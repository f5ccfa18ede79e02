package fs

import (
	"os"
	"strings"
	"time"

	"latchfs/fs/knowledgelog"
	"latchfs/lockmgr/knowledge"
)

// openKnowledge takes over what was known when the last daemon ended. What processes have
// read is kept over a restart, for the clients go on.
func (f *FS) openKnowledge() {
	f.rules.knowledge = knowledge.New(f.rules.policy.LongestFade())
	f.losses.remembers = knowledgelog.Open(f.disk.state, bootID(), f.rules.knowledge, f.disk.log.Warnf)
}

// bootID names this life of the machine, in which process ids mean what they mean.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// sweepKnowledge forgets what counts no more.
func (lo *losses) sweepKnowledge(now time.Time) { lo.rules.knowledge.Sweep(now, lo.callers.proc.Alive) }

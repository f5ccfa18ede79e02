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
	f.knowledge = knowledge.New(f.policy.LongestFade())
	f.remembers = knowledgelog.Open(f.state, bootID(), f.knowledge, f.log.Warnf)
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
func (f *FS) sweepKnowledge(now time.Time) { f.knowledge.Sweep(now, f.proc.Alive) }

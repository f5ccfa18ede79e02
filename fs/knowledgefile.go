package fs

import (
	"os"
	"strings"
	"time"

	"latchfs/fs/knowledgelog"
	"latchfs/lockmgr/knowledge"
)

// What processes have read is kept over a restart of the daemon: its clients go on. What
// is new is written every two seconds, or more seldom if that takes more than a fiftieth
// of the time, and at the end.
const (
	saveKnowledgeEvery  = 2 * time.Second
	saveKnowledgeRest   = 50          // times what the last one took
	sweepKnowledgeEvery = time.Minute // what counts no more is forgotten
)

// openKnowledge takes over what was known when the last daemon ended.
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

// keepKnowledge runs until the mount is gone.
func (f *FS) keepKnowledge() {
	t := time.NewTimer(saveKnowledgeEvery)
	defer t.Stop()
	swept := time.Now()
	for {
		select {
		case <-f.done:
			return
		case <-t.C:
		}
		began := time.Now()
		if began.Sub(swept) > sweepKnowledgeEvery {
			f.knowledge.Sweep(began, f.proc.Alive)
			swept = began
		}
		f.saveKnowledge(f.remembers.Write())
		t.Reset(max(saveKnowledgeEvery, saveKnowledgeRest*time.Since(began)))
	}
}

// saveKnowledge tells of an error, once until it has gone.
func (f *FS) saveKnowledge(err error) {
	if failed := err != nil; f.unwritten.Swap(failed) != failed && failed {
		f.log.Warnf("what was read will not be known after a restart: %v", err)
	}
}

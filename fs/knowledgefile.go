package fs

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"

	"latchfs/lockmgr/knowledge"
)

// knowledgeFile keeps what processes have read over a restart of the daemon: its
// clients go on. It is written while something is new, every two seconds or, if it has
// grown large, so seldom that it takes no more than a fiftieth of the time, and at the
// end. It need not survive a power cut, for nor do the processes.
const knowledgeFile = "knowledge.json"

const (
	saveKnowledgeEvery  = 2 * time.Second
	saveKnowledgeRest   = 50          // times what the last one took
	sweepKnowledgeEvery = time.Minute // what counts no more is forgotten
)

// openKnowledge loads what was known when the last daemon ended.
func (f *FS) openKnowledge() {
	f.knowledge = knowledge.New(f.policy.LongestFade())
	f.boot = bootID()
	data, err := f.readState(knowledgeFile)
	if err == nil {
		err = f.knowledge.Load(data, f.boot)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		f.log.Warnf("what was read before this start is forgotten: %s: %v", knowledgeFile, err)
	}
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
	saved, swept := f.knowledge.News(), time.Now()
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
		if news := f.knowledge.News(); news != saved {
			f.saveKnowledge()
			saved = news
		}
		t.Reset(max(saveKnowledgeEvery, saveKnowledgeRest*time.Since(began)))
	}
}

// saveKnowledge writes the file.
func (f *FS) saveKnowledge() {
	data, err := f.knowledge.Save(f.boot)
	if err == nil {
		err = f.writeState(knowledgeFile, data)
	}
	if err != nil {
		f.log.Warnf("what was read will not be known after a restart: %v", err)
	}
}

// maxState bounds a file of state, against one that is not ours.
const maxState = 256 << 20

// readState reads a small file of the state directory.
func (f *FS) readState(name string) ([]byte, error) {
	fd, err := statedir.OpenFile(int(f.state.Fd()), name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxState))
}

// writeState replaces a small file of the state directory.
func (f *FS) writeState(name string, data []byte) error {
	dir, temp := int(f.state.Fd()), name+".new"
	fd, err := statedir.OpenFile(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), temp)
	_, err = file.Write(data)
	if e := file.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = unix.Renameat(dir, temp, dir, name)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, temp, 0)
	}
	return err
}

package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// knowledgeLog is what the state directory keeps of what processes have read.
func (m *Mount) knowledgeLog() []byte {
	b, _ := os.ReadFile(filepath.Join(m.Data, ".latchfs", "knowledge.log")) // none is an empty one
	return b
}

// What processes have read is known after the daemon was killed while it wrote that down,
// and what was written takes the space of the names that there are.
func TestKnowledgeOutlivesAKill(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for _, f := range []*Family{a, b} {
			f.OK(`d=$PWD; cd /`)
		}
		b.OK(`echo one > "$d/read-by-a"`)
		a.OK(`x=$(cat "$d/read-by-a")`)
		eventually(t, "that a file was read is in the log", func() bool { return bytes.Contains(m.knowledgeLog(), []byte("read-by-a")) })
		busy := m.Launch(t, "bash", "-c", `n=0; while echo x > "$0/temporary$n" && rm "$0/temporary$n"; do n=$((n+1)); echo $n; done 2> /dev/null`, m.Dir)
		for range 2 {
			size := len(m.knowledgeLog())
			eventually(t, "more was written", func() bool { return len(m.knowledgeLog()) > size })
		}
		m.Crash(t)
		busy.Wait()
		lines := bytes.Fields([]byte(busy.Stdout()))
		if len(lines) == 0 {
			t.Fatal("nothing was written when the daemon was killed")
		}
		names, err := strconv.Atoi(string(lines[len(lines)-1]))
		if err != nil {
			t.Fatal(err)
		}
		if size := len(m.knowledgeLog()); size > 4096+400*names {
			t.Errorf("%d names were made and removed, and the log has %d bytes", names, size)
		}
		m.Start(t)
		b.OK(`read -r x < "$d/read-by-a"; echo two > "$d/read-by-a"`)
		a.Refused(`echo "$x more" > "$d/read-by-a"`)
		a.OK(`x=$(cat "$d/read-by-a"); echo "$x more" > "$d/read-by-a"`)
	})
}

// What an earlier release has left is replaced, and a log that is damaged keeps no mount
// from starting.
func TestDamagedKnowledgeIsSetAside(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		m.Stop(t)
		state := filepath.Join(m.Data, ".latchfs")
		for name, content := range map[string]string{"knowledge.json": "torn by a cr", "knowledge.log": "this is not one of our logs"} {
			if err := os.WriteFile(filepath.Join(state, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m.Start(t)
		for _, name := range []string{"knowledge.json", "knowledge.log"} {
			if !bytes.Contains([]byte(m.log()), []byte(name+": ")) {
				t.Errorf("nobody is told that %s is damaged:\n%s", name, m.log())
			}
		}
		eventually(t, "the old file is gone", func() bool {
			_, err := os.Stat(filepath.Join(state, "knowledge.json"))
			return os.IsNotExist(err)
		})
		if _, err := os.Stat(filepath.Join(state, "knowledge.log.broken")); err != nil {
			t.Error(err)
		}
		m.Stop(t)
		if found, code := m.Fsck(t); code != 0 {
			t.Errorf("fsck finds %v", found)
		}
	})
}

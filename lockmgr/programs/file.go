package programs

import (
	"encoding/json"
	"errors"
	"fmt"
)

// format is the version of what Save writes.
const format = 1

// saved is what Save writes.
type saved struct {
	Format   int       `json:"format"`
	Programs []Program `json:"programs"`
}

// Save writes what has been learned. Reads that nothing has come of are left out:
// most of their processes will be gone.
func (t *Table) Save() ([]byte, error) {
	b, err := json.MarshalIndent(saved{format, t.List()}, "", "  ")
	return append(b, '\n'), err
}

// Load takes over what Save wrote, in place of what is known. On an error nothing
// has changed.
func (t *Table) Load(data []byte) error {
	var s saved
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if s.Format != format {
		return fmt.Errorf("unknown format %d", s.Format)
	}
	programs := map[string]*Program{}
	for i := range s.Programs {
		p := &s.Programs[i]
		if p.Name == "" || programs[p.Name] != nil {
			return errors.New("a program without a name of its own")
		}
		programs[p.Name] = p
	}
	if len(programs) > maxPrograms {
		return fmt.Errorf("%d programs, more than %d", len(programs), maxPrograms)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.programs = programs
	return nil
}

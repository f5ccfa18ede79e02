package content

import (
	"slices"
	"testing"
)

// change is a change of metadata that notes that it was made, and to what.
func change(made *[]int, i int, err error) func(fd int) error {
	return func(fd int) error {
		*made = append(*made, i, fd)
		return err
	}
}

// A change of times hides no write that came before it, and is none.
func TestTimesAreNoWrite(t *testing.T) {
	c, s := begun(true)
	c.BeforeMeta()
	s.dirty = true // the times are set
	if err := c.AfterMeta(); err != nil {
		t.Error(err)
	}
	s.want(t, "not written before", "dirty", "mark")
	is(t, "not written before", c, false)

	s.dirty, s.asked = true, nil
	c.BeforeMeta()
	if err := c.AfterMeta(); err != nil {
		t.Error(err)
	}
	s.want(t, "written before", "dirty")
	s.dirty = false // the times are set back
	is(t, "written before", c, true)
	if !c.HasWritten() {
		t.Error("the write is forgotten")
	}

	c.BeforeMeta()
	if err := c.AfterMeta(); err != nil {
		t.Error(err)
	}
	s.want(t, "known to be written")
}

// What is not filled has no times that tell anything. Where nobody can see whether it was
// written, nothing is noted.
func TestTimesThatTellNothing(t *testing.T) {
	c, s := begun(false)
	s.dirty = true
	c.BeforeMeta()
	if err := c.AfterMeta(); err != nil || c.HasWritten() {
		t.Errorf("%v; written %v", err, c.HasWritten())
	}
	s.want(t, "not filled")

	c, s = begun(true)
	s.dirty, s.fails = true, true
	c.BeforeMeta()
	if c.HasWritten() {
		t.Error("what nobody could see is noted")
	}
}

// Changes of metadata are made to the file in their order, once.
func TestApplyMeta(t *testing.T) {
	c, _ := begun(true)
	var made []int
	c.NoteMeta(change(&made, 1, nil))
	c.NoteMeta(change(&made, 2, nil))
	if !c.HasMeta() || len(made) > 0 {
		t.Errorf("has some: %v; made %v", c.HasMeta(), made)
	}
	if err := c.ApplyMeta(9); err != nil || c.HasMeta() || !slices.Equal(made, []int{1, 9, 2, 9}) {
		t.Errorf("%v; has some still: %v; made %v", err, c.HasMeta(), made)
	}
	made = nil
	if err := c.ApplyMeta(9); err != nil || len(made) > 0 {
		t.Errorf("once more: %v; made %v", err, made)
	}
}

// After one that fails none is made, and all stay.
func TestApplyMetaFails(t *testing.T) {
	c, _ := begun(true)
	var made []int
	c.NoteMeta(change(&made, 1, errBroken))
	c.NoteMeta(change(&made, 2, nil))
	if err := c.ApplyMeta(9); err != errBroken || !c.HasMeta() || !slices.Equal(made, []int{1, 9}) {
		t.Errorf("%v; has some still: %v; made %v", err, c.HasMeta(), made)
	}
}

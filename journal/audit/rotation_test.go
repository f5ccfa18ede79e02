package audit

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var errFull = errors.New("no space")

var rotationSteps = []string{"sync", "leave", "keep", "forget", "pass on", "begin"}

// busyTrail is a trail to which one user has written a little and another one much, whose
// events are numbered.
type busyTrail struct {
	*stage
	trail *Trail
	last  uint64 // the number of the last event
}

func newBusyTrail(t testing.TB) *busyTrail {
	t.Helper()
	b := &busyTrail{stage: newStage(t)}
	b.max = 2000
	b.trail = b.open()
	for range 3 {
		check(t, b.trail.Append(Event{Event: "little", Detail: map[string]any{"uid": 1}}))
	}
	b.muchUntil(func() bool { return b.files()[keptName] != "" })
	return b
}

func (b *busyTrail) muchUntil(done func() bool) {
	b.t.Helper()
	for range 200 {
		if check(b.t, b.much()); done() {
			return
		}
	}
	b.t.Fatal("what is waited for does not come")
}

func (b *busyTrail) much() error {
	err := b.trail.Append(Event{Event: "much", Token: b.last + 1, Detail: map[string]any{"uid": 2}})
	if err == nil {
		b.last++
	}
	return err
}

// intact reports an error unless the trail has all of the few events, and of the many
// each up to the last one, once.
func (b *busyTrail) intact(when string) {
	b.t.Helper()
	little, last := 0, uint64(0)
	for line := range strings.Lines(readLog(b.t, b.trail.View())) {
		var e struct {
			Event string
			Token uint64
		}
		check(b.t, json.Unmarshal([]byte(line), &e))
		if e.Event == "little" {
			little++
			continue
		}
		if last > 0 && e.Token != last+1 {
			b.t.Errorf("%s: number %d comes behind %d", when, e.Token, last)
		}
		last = e.Token
	}
	if little != 3 || last != b.last {
		b.t.Errorf("%s: %d of 3 events of one user, and up to %d of %d of the other", when, little, last, b.last)
	}
	parts := b.files()
	if log := parts[keptName] + parts[oldName] + parts[Name]; log != readLog(b.t, b.trail.View()) {
		b.t.Errorf("%s: the view differs from the files", when)
	}
}

func (b *busyTrail) goOn(when string) {
	b.t.Helper()
	for range 100 {
		check(b.t, b.much())
	}
	b.intact(when)
	for name := range b.files() {
		if Unfinished(name) {
			b.t.Errorf("%s: %s is left", when, name)
		}
	}
}

// A rotation that fails at any step, and is tried again, enters no line twice and loses
// none.
func TestRotationThatFails(t *testing.T) {
	for _, at := range rotationSteps {
		b := newBusyTrail(t)
		failed := 0
		b.trail.fault = func(step string) error {
			if step != at {
				return nil
			}
			failed++
			return errFull
		}
		for range 100 {
			if err := b.much(); err != nil && !errors.Is(err, errFull) {
				t.Fatal(err)
			}
		}
		if failed == 0 {
			t.Errorf("%s: no rotation has come so far", at)
		}
		b.intact(at + " fails")
		b.trail.fault = nil
		b.goOn(at + " has failed")
	}
}

// A daemon that is killed before any step of a rotation leaves a trail in which the next
// one finds every line, once; also if the rotation before could not tidy up.
func TestRotationThatIsCutShort(t *testing.T) {
	for _, at := range rotationSteps {
		for _, untidy := range []bool{false, true} {
			b := newBusyTrail(t)
			if untidy {
				b.trail.fault = func(step string) error {
					if step == "forget" {
						return errFull
					}
					return nil
				}
				b.muchUntil(func() bool { return b.files()[leavingName] != "" })
			}
			killed := &busyTrail{stage: newStage(t)}
			killed.max = b.max
			b.trail.fault = func(step string) error {
				if step == at && killed.last == 0 {
					killed.last = b.last
					for name, content := range b.files() {
						killed.write(name, content)
					}
				}
				return nil
			}
			b.muchUntil(func() bool { return killed.last > 0 })
			killed.trail = killed.open()
			killed.intact("killed before " + at)
			killed.goOn("killed before " + at + ", and gone on")
			b.goOn("not killed")
		}
	}
}

package policy

import (
	"time"

	"latchfs/lockmgr/policy/internal/position"
)

// defaultGrow is Settings.Grow where no policy sets it.
const defaultGrow = 2 * time.Second

// growNever is how a policy file turns growing off.
const growNever = "never"

// grow reads how long new output stays hidden: a duration, or "never".
func (p *parser) grow(at position.Node, v any) *Duration {
	s, ok := v.(string)
	if !ok {
		p.Fail(at, `%s must be a string with a unit, as in "2s" or "500ms", or %q`, keyGrow, growNever)
		return nil
	}
	if s == growNever {
		return new(Duration)
	}
	if _, err := time.ParseDuration(s); err != nil {
		p.Fail(at, `bad %s %q: must be a duration, as in "2s" or "500ms", or %q`, keyGrow, s, growNever)
		return nil
	}
	return p.Positive(at, keyGrow, v, `new output stays hidden for some time; "`+growNever+`" hides it until the close`)
}

// growText is what parser.grow reads.
func growText(d Duration) string {
	if d == 0 {
		return growNever
	}
	return d.String()
}

// GrowText writes s.Grow as a policy file does: "2s", or "never".
func (s *Settings) GrowText() string { return growText(Duration(s.Grow)) }

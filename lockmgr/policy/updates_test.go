package policy

import (
	"fmt"
	"testing"
	"time"
)

func TestObserves(t *testing.T) {
	s := Settings{Observers: []string{"tail", "node*", "/opt/*/bin/show", "**/dash.py"}}
	for _, c := range []struct {
		comm, exe, script string
		want              bool
	}{
		{"tail", "/usr/bin/tail", "", true},
		{"less", "/usr/bin/less", "", false},
		{"MainThread", "/usr/bin/node22", "/srv/app.js", true}, // told by the executable's name
		{"python3", "/usr/bin/python3", "/srv/tail", true},     // told by the script's name
		{"show", "/opt/x/bin/show", "", true},
		{"show", "/opt/bin/show", "", false},
		{"python3", "/usr/bin/python3", "/srv/web/dash.py", true},
		{"python3", "/usr/bin/python3", "/srv/web/dash.pyc", false},
		{"dash.py", "", "", false}, // a glob with a '/' is for paths
		{"", "", "", false},
	} {
		if got := s.Observes(c.comm, c.exe, c.script); got != c.want {
			t.Errorf("%q %q %q: %t", c.comm, c.exe, c.script, got)
		}
	}
	if all := (&Settings{Observers: []string{"*"}}); !all.Observes("x") {
		t.Error("* does not match every program")
	}
	if none := factory(); none.Observes("tail", "/usr/bin/tail") {
		t.Error("somebody observes where nobody is named")
	}
}

func TestLongestFade(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                      10 * time.Minute,
		"defaults.fade = '1m'":  time.Minute,
		"rule = [{glob = 'a'}]": 10 * time.Minute,
		"defaults.fade = '1m'\nrule = [{glob = 'a'}, {glob = 'b', fade = '3m'}, {glob = 'c', fade = '2m'}]": 3 * time.Minute,
		"defaults.fade = '5m'\nrule = [{glob = 'a', fade = '1s'}]":                                          5 * time.Minute,
	} {
		p, err := Parse("p.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.LongestFade(); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// describeUpdates is what describe says of lost updates.
func describeUpdates(s, plain *Settings) (text []string) {
	if s.LostUpdate != plain.LostUpdate {
		text = append(text, "lost-update "+string(s.LostUpdate))
	}
	if s.Insist != plain.Insist {
		text = append(text, "insist "+string(s.Insist))
	}
	if s.ClaimTTL != plain.ClaimTTL {
		text = append(text, "claim-ttl "+s.ClaimTTL.String())
	}
	if s.Fade != plain.Fade {
		text = append(text, "fade "+s.Fade.String())
	}
	if len(s.Observers) > 0 {
		text = append(text, fmt.Sprintf("observers %q", s.Observers))
	}
	if s.Strangers != plain.Strangers {
		text = append(text, "strangers "+string(s.Strangers))
	}
	return text
}

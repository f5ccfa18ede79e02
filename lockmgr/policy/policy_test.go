package policy

import "testing"

func TestDefault(t *testing.T) {
	if got := Default().For("a/b.db").Mode; got != Live {
		t.Errorf("a/b.db is %s", got)
	}
	if _, err := Parse("default", Default().TOML()); err != nil {
		t.Error(err)
	}
}

package main

import (
	"os"
	"strings"
	"testing"
)

// docs/history.md lists every event that the audit command has words for.
func TestEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/history.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind := range eventTexts {
		if !strings.Contains(string(text), "`"+kind+"`") {
			t.Errorf("docs/history.md does not list the event %s", kind)
		}
	}
}

package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// docs/history.md lists every event that the audit command takes, and no other.
func TestEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/history.md")
	if err != nil {
		t.Fatal(err)
	}
	known := knownEvents()
	for _, kind := range known {
		if !strings.Contains(string(text), "`"+kind+"`") {
			t.Errorf("docs/history.md does not list the event %s", kind)
		}
	}
	_, table, _ := strings.Cut(string(text), "| event | what happened |")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		kinds, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for kind := range strings.SplitSeq(kinds, ",") {
			if kind = strings.Trim(kind, " -`\n"); kind != "" && !slices.Contains(known, kind) {
				t.Errorf("docs/history.md lists %s, which --event does not take", kind)
			}
		}
	}
}

package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"latchfs/fs/control"
	"latchfs/fs/printable"
)

func newCheckCommand(sys system) *cobra.Command {
	var s selectors
	cmd := &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Say whether something is locked, and by whom",
		Long: `Say for each FILE, --tree directory and --name name whether it is locked, by whom,
for what and since when. Nothing is locked by asking.

The exit code is 0 if all are free, and 1 if one is locked. It is 1, too, when the
question could not be asked; then standard error says why.

With --json there is one object for each, on a line of its own, in the order: files,
trees, names. That of a free one, if nothing else was asked, is {"locked":false}. Of a
locked one it has holder (pid, session_id, acquired_at, hostname, operation and more),
is_stale, stale_reason and we_hold_it; of a stale one also error (lock_stale),
stale_since, age_seconds, ttl_seconds, held_by and suggestion.`,
		Example: `  latchfs check todo.json && echo free
  latchfs check --json --tree memory --name deploy-prod`,
		RunE: func(cmd *cobra.Command, files []string) error {
			a, records, err := s.check(sys, files)
			if err != nil {
				return err
			}
			if !a.OK {
				return refused(cmd, a.Refusal, s.asJSON)
			}
			if err := s.printChecks(cmd, a, records, files); err != nil {
				return err
			}
			if slices.ContainsFunc(records, func(r lockRecord) bool { return *r.Locked }) {
				return exitError(exitFailure)
			}
			return nil
		},
	}
	s.register(cmd)
	registerJSON(cmd, &s.asJSON, "print one JSON object for each")
	return cmd
}

// printChecks prints the answer: a line about each, or a JSON object.
func (s *selectors) printChecks(cmd *cobra.Command, a *answer, records []lockRecord, files []string) error {
	if s.asJSON {
		return s.printChecked(cmd, a, records, files)
	}
	var text strings.Builder
	for i, name := range s.labels(files) {
		text.WriteString(name + ": " + records[i].describe() + "\n")
	}
	return a.print(cmd, false, text.String())
}

// check asks who holds what the command line names. If it is answered, there is
// a record for each of labels.
func (s *selectors) check(sys system, files []string) (*answer, []lockRecord, error) {
	a, err := s.ask(sys, &control.Request{Op: control.Check}, files)
	if err != nil || !a.OK {
		return a, nil, err
	}
	records, err := a.records()
	if err == nil && len(records) != len(s.labels(files)) {
		err = errors.New("the reply cannot be read: it is not about what was asked")
	}
	return a, records, err
}

// labels are the names that were asked about, as they were given, in the order
// of the answer.
func (s *selectors) labels(files []string) []string {
	labels := slices.Concat(files, s.trees, s.names)
	for i, l := range labels {
		labels[i] = printable.Line(l)
	}
	return labels
}

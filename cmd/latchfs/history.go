package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"latchfs/fs/printable"
)

// historyFlags are the flags of `latchfs history`.
type historyFlags struct {
	viewFlags
	deleted bool
	asJSON  bool
}

func newHistoryCommand(sys system) *cobra.Command {
	var f historyFlags
	cmd := &cobra.Command{
		Use:   "history [FILE|DIR]",
		Short: "Show which versions of a file there are, or which files have any",
		Long: `Show the versions of FILE that are known, oldest first: when and by whom each was
made, and which are kept. FILE may be gone. Of DIR, or else the working directory,
show for every file in it that has a history the latest version. If FILE is a symbolic
link that never was a file, the question is about the file that it leads to.

A version that is kept is a file: .locks/history/FILE/VERSION. The policy says how
many are kept of a file, and how much in all.`,
		Example: `  latchfs history todo.json
  latchfs history --deleted src        # what was deleted there
  cat .locks/history/todo.json/3`,
		Args: between(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, sys, args)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.deleted, "deleted", false, "only files that are gone")
	registerJSON(cmd, &f.asJSON, "print one JSON object for each version")
	return cmd
}

func (f *historyFlags) run(cmd *cobra.Command, sys system, args []string) error {
	v, p, err := f.asked(cmd, sys, args)
	if err != nil {
		return err
	}
	all, err := v.histories([]string{p})
	if err != nil {
		return err
	}
	_, isFile := all[p]
	st, err := os.Lstat(v.file(p))
	isDir := err == nil && st.IsDir()
	if len(all) == 0 && !isDir {
		return v.unknown(p)
	}
	if f.deleted {
		maps.DeleteFunc(all, func(_ string, states []*fileVersion) bool { return states[len(states)-1].isFile() })
	}
	switch {
	case f.asJSON:
		return all.printLines(cmd.OutOrStdout())
	case isFile && !isDir:
		return printVersions(cmd.OutOrStdout(), all[p])
	}
	return all.print(cmd.OutOrStdout())
}

// asked is what the history is asked for of: FILE or DIR, the working directory, or all
// of a mount.
func (f *historyFlags) asked(cmd *cobra.Command, sys system, args []string) (*view, string, error) {
	switch {
	case len(args) > 0:
		return f.about(cmd, sys, args[0])
	case f.mount == "":
		return f.at(sys, ".")
	}
	v, err := f.here(sys)
	return v, ".", err
}

// printLines prints the records as they are, path after path.
func (all histories) printLines(w io.Writer) error {
	for _, p := range slices.Sorted(maps.Keys(all)) {
		for _, s := range all[p] {
			if _, err := w.Write(s.line); err != nil {
				return err
			}
		}
	}
	return nil
}

// printVersions prints the versions of one file.
func printVersions(w io.Writer, states []*fileVersion) error {
	if len(states) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VERSION\tTIME\tBYTES\tKEPT\tBY\tWHAT")
	for _, s := range states {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n",
			s.Version, s.Time.Local().Format(time.DateTime), s.size(), s.keeping(), s.author.String(), s.what())
	}
	return table.Flush()
}

func (s *fileVersion) size() string {
	if !s.isFile() {
		return "-"
	}
	return fmt.Sprint(s.Bytes)
}

// keeping says whether the content can be had.
func (s *fileVersion) keeping() string {
	switch {
	case s.Current:
		return "current"
	case !s.isFile():
		return "-"
	case s.Kept:
		return "yes"
	}
	return "no"
}

// print prints for each file its latest state, and which earlier ones are kept.
func (all histories) print(w io.Writer) error {
	if len(all) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FILE\tVERSION\tTIME\tBYTES\tKEPT\tBY\tWHAT")
	for _, p := range slices.Sorted(maps.Keys(all)) {
		states := all[p]
		s := states[len(states)-1]
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", printable.Line(p), s.Version,
			s.Time.Local().Format(time.DateTime), s.size(), keptOf(states), s.author.String(), s.what())
	}
	return table.Flush()
}

// keptOf says which earlier versions are kept, as "3-5,7".
func keptOf(states []*fileVersion) string {
	text := ""
	for i := 0; i < len(states); i++ {
		if !states[i].isKept() {
			continue
		}
		first := i
		for i+1 < len(states) && states[i+1].isKept() && states[i+1].Version == states[i].Version+1 {
			i++
		}
		if text != "" {
			text += ","
		}
		text += fmt.Sprint(states[first].Version)
		if i > first {
			text += fmt.Sprintf("-%d", states[i].Version)
		}
	}
	return orDash(text)
}

// isKept tells whether there is something to restore.
func (s *fileVersion) isKept() bool { return s.Kept && s.isFile() && !s.Current }

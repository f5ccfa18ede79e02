package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"latchfs/fs/printable"
	"latchfs/fs/report"
)

func newRejectedCommand(sys system) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rejected",
		Short: "List, show and restore the bytes of refused writes",
		Long: `What a write that was refused, fenced off or cut off by the death of its writer
would have made of the file is kept for a while, under .locks/rejected/, for whoever
may read the file. The policy's [rejected] table says how much and for how long.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("want list, show, diff or restore")
		},
	}
	cmd.AddCommand(newRejectedListCommand(sys), newRejectedShowCommand(sys), newRejectedDiffCommand(sys), newRejectedRestoreCommand(sys))
	return cmd
}

// rejection is an entry below .locks/rejected.
type rejection struct {
	named
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`
	Program   string    `json:"program"`
	PID       int32     `json:"pid"`
	Operation string    `json:"operation"`
	Errno     string    `json:"errno"`
	Reason    string    `json:"reason"`
	File      *struct {
		Size int64  `json:"size"`
		Mode string `json:"mode"`
		UID  int    `json:"uid"`
		GID  int    `json:"gid"`
	} `json:"file"`
	// ACL: the file had one, whose mask stands in the place of the group's bits.
	ACL bool `json:"acl"`
	// Base is the version that the writer had before it, null for a new file;
	// not there where nobody knows.
	Base json.RawMessage `json:"base"`
	// Merge is there if it could not be merged with the file as it then was: what
	// version it was made from, 0 if that is not known.
	Merge *struct {
		Base uint64 `json:"base"`
	} `json:"merge"`

	meta []byte // as it is in meta.json; nil if it was not kept
	size int64  // of what is kept
}

// isCut reports whether some of the bytes are missing that were kept once.
func (r *rejection) isCut() bool { return r.size < r.File.Size }

// cut says so.
func (r *rejection) cut() string {
	return fmt.Sprintf("only %d of its %d bytes are there", r.size, r.File.Size)
}

// why says why it was refused, and what is wrong with what is kept.
func (r *rejection) why() string {
	why := cmp.Or(r.Reason, r.Errno)
	switch {
	case !r.isCut():
		return orDash(why)
	case why == "":
		return r.cut()
	}
	return orDash(why) + "; " + r.cut()
}

func (v *view) rejected(name ...string) string {
	return filepath.Join(append([]string{v.locks, "rejected"}, name...)...)
}

// rejection reads an entry. Without room for it meta.json is not there.
func (v *view) rejection(id string) (*rejection, error) {
	st, err := os.Stat(v.rejected(id, "content"))
	if err != nil {
		return nil, err
	}
	r := &rejection{}
	meta, err := os.ReadFile(v.rejected(id, "meta.json"))
	switch {
	case err == nil && json.Unmarshal(meta, r) == nil:
		r.meta = meta
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	r.ID, r.size = id, st.Size()
	if r.Time.IsZero() {
		r.Time = st.ModTime()
	}
	if r.File == nil {
		_ = json.Unmarshal(fmt.Appendf(nil, `{"file":{"size":%d}}`, st.Size()), r) // it is as we wrote it
	}
	return r, nil
}

// rejections reads all entries that we may see, oldest first.
func (v *view) rejections() ([]*rejection, error) {
	entries, err := os.ReadDir(v.rejected())
	if err != nil {
		return nil, err
	}
	list := make([]*rejection, 0, len(entries))
	for _, e := range entries {
		r, err := v.rejection(e.Name())
		if errors.Is(err, os.ErrNotExist) {
			continue // removed for its age meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// findRejection is the entry that id names: all of it, or as much of its beginning
// or end as no other has.
func (v *view) findRejection(id string) (*rejection, error) {
	entries, err := os.ReadDir(v.rejected())
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		switch name := e.Name(); {
		case name == id:
			return v.rejection(id)
		case strings.HasPrefix(name, id), strings.HasSuffix(name, id):
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%s: no such entry, or not for you to see: latchfs rejected list shows what there is", printable.Line(id))
	case 1:
		return v.rejection(found[0])
	}
	return nil, usagef("%s could be %s", printable.Line(id), strings.Join(found, " or "))
}

func newRejectedListCommand(sys system) *cobra.Command {
	var f viewFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [PATH...]",
		Short: "List the refused writes whose bytes are kept, oldest first",
		Long: `List the refused writes whose bytes are kept, oldest first: those meant for PATH or
for something below it, or all in the mount. You see those of files that you may
read.`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			v, below, err := f.under(sys, paths)
			if err != nil {
				return err
			}
			list, err := v.rejections()
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(r *rejection) bool { return !isBelow(r.real(), below) })
			if asJSON {
				return printRejectionsJSON(cmd.OutOrStdout(), list)
			}
			return printRejections(cmd.OutOrStdout(), list)
		},
	}
	f.register(cmd)
	registerJSON(cmd, &asJSON, "print one JSON object for each entry")
	return cmd
}

func printRejections(w io.Writer, list []*rejection) error {
	if len(list) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tTIME\tFILE\tBYTES\tPROGRAM\tWHY")
	for _, r := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", printable.Line(r.ID), r.Time.Local().Format(time.DateTime),
			orDash(r.real()), r.size, program(r.Program, r.PID), r.why())
	}
	return table.Flush()
}

// program names a process as .locks/status does.
func program(name string, pid int32) string {
	if name == "" && pid == 0 {
		return "-"
	}
	r := report.Record{Asker: report.Asker{Program: name, Owner: report.Process{PID: pid}}}
	return r.Who()
}

// printRejectionsJSON prints what meta.json says of each, on a line, and how many bytes there
// are if some are missing.
func printRejectionsJSON(w io.Writer, list []*rejection) error {
	for _, r := range list {
		var o any = json.RawMessage(r.meta)
		if r.meta == nil {
			o = map[string]any{"id": r.ID, "time": r.Time.UTC().Format(time.RFC3339Nano), "file": map[string]any{"size": r.File.Size}}
		}
		all := map[string]any{}
		if r.isCut() && json.Unmarshal(r.meta, &all) == nil {
			all["bytes_left"] = r.size
			o = all
		}
		if err := printJSON(w, o); err != nil {
			return err
		}
	}
	return nil
}

func newRejectedShowCommand(sys system) *cobra.Command {
	var f viewFlags
	var meta, diff bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print the bytes of a refused write, or what is known about it",
		Long: `Print the bytes of a refused write. ID may be shortened to a beginning or an end
that no other entry has. To a terminal only text is printed.

With --diff the exit code is 0 if the file has the same content, and 1 if not;
it is 1, too, when that could not be found out; then standard error says why.`,
		Example: `  latchfs rejected show 1f3e > todo.json.mine
  latchfs rejected show --diff 1f3e     # what it would change in the present file`,
		Args:              exactly(1),
		ValidArgsFunction: f.completeIDs(sys),
		RunE: func(cmd *cobra.Command, args []string) error {
			if meta && diff {
				return usagef("--meta and --diff exclude each other")
			}
			v, err := f.here(sys)
			if err != nil {
				return err
			}
			r, err := v.findRejection(args[0])
			switch {
			case err != nil:
				return err
			case diff:
				return v.diffRejection(cmd, r)
			case meta:
				return printFile(cmd.OutOrStdout(), v.rejected(r.ID, "meta.json"))
			}
			return printFile(cmd.OutOrStdout(), v.rejected(r.ID, "content"))
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&meta, "meta", false, "print what is known about it, as JSON")
	cmd.Flags().BoolVar(&diff, "diff", false, "print the difference from the present file, as diff -u does")
	return cmd
}

// completeIDs tells the shell which entries there are.
func (f *viewFlags) completeIDs(sys system) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		v, err := f.here(sys)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, err := v.rejections()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ids := make([]cobra.Completion, len(list))
		for i, r := range list {
			ids[i] = cobra.CompletionWithDesc(r.ID, orDash(r.real()))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

func printFile(w io.Writer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return copyOut(w, file)
}

func (v *view) diffRejection(cmd *cobra.Command, r *rejection) error {
	p, err := r.target()
	if err != nil {
		return err
	}
	if r.Operation == opAppend {
		return fmt.Errorf("%s are bytes for the end of %s, not a version of it", r.ID, printable.Line(p))
	}
	return diffFiles(cmd, side{v.file(p), p}, side{v.rejected(r.ID, "content"), p + " (refused " + r.Time.Local().Format(time.DateTime) + ")"})
}

// target is the path that the bytes were meant for.
func (r *rejection) target() (string, error) {
	if r.Path == "" {
		return "", fmt.Errorf("it is not known which file %s was meant for", r.ID)
	}
	return r.real(), nil
}

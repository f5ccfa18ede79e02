package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/moby/sys/mountinfo"
	"github.com/spf13/cobra"

	"latchfs/fs/control"
	"latchfs/fs/printable"
)

// listFlags are the flags of `latchfs list`.
type listFlags struct {
	mine     bool
	holder   holderFlag
	locksDir string
	asJSON   bool
}

func newListCommand(sys system) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list [PATH]",
		Short: "List what is held",
		Long: `List the locks of the mount that PATH is in, or of every latchfs mount that you may
enter. Nothing is printed where nothing is held.`,
		Example: `  latchfs list
  [ -z "$(latchfs list --mine --for $$)" ] && echo 'everything is released'`,
		Args: between(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, sys, args)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&f.mine, "mine", false, "only what the process that called latchfs holds")
	f.holder.register(cmd, "only what this process holds")
	registerLocksDir(cmd, &f.locksDir)
	registerJSON(cmd, &f.asJSON, "print one JSON object for each mount")
	return cmd
}

// run is `latchfs list`. A mount that does not answer is reported and does not
// keep us from the others; one that the user may not enter is left out of all.
func (f *listFlags) run(cmd *cobra.Command, sys system, args []string) error {
	req := &control.Request{Op: control.List}
	if f.mine || f.holder.pid != 0 {
		holder, err := f.holder.holder()
		if err != nil {
			return err
		}
		req.Mine, req.Holder = true, holder
	}
	mounts, err := sys.listed(args)
	if err != nil {
		return err
	}
	var failed []error
	barred := 0
	for _, m := range mounts {
		a, err := inTime(m.Mountpoint, func() (*answer, error) { return f.ask(sys, m, req) })
		switch {
		case len(args) == 0 && isBarred(err):
			barred++
		case err != nil:
			failed = append(failed, err)
		case !a.OK:
			failed = append(failed, refused(cmd, a.Refusal, f.asJSON))
		default:
			if err := f.print(cmd, a, m, len(mounts) > 1); err != nil {
				return err
			}
		}
	}
	if barred == len(mounts) {
		return errNoMount
	}
	return errors.Join(failed...)
}

// listed are the mounts that `latchfs list` is about.
func (s system) listed(args []string) ([]*mountinfo.Info, error) {
	if len(args) == 1 {
		p, err := inTime(args[0], func() (place, error) { return s.locate(args[0]) })
		return []*mountinfo.Info{p.mount}, err
	}
	all, err := s.mounts(mountinfo.FSTypeFilter(fsType))
	if err != nil {
		return nil, err
	}
	var mounts []*mountinfo.Info
	for _, m := range all {
		known := slices.ContainsFunc(mounts, func(x *mountinfo.Info) bool { return sameFilesystem(x, m) })
		if !known {
			mounts = append(mounts, m)
		}
	}
	if len(mounts) == 0 {
		return nil, errNoMount
	}
	return mounts, nil
}

func (f *listFlags) ask(sys system, m *mountinfo.Info, req *control.Request) (*answer, error) {
	c, err := converse(sys, m, f.locksDir)
	if err != nil {
		return nil, err
	}
	defer c.end()
	return c.ask(req)
}

// print shows what is held in one mount, under its name if it is one of many.
func (f *listFlags) print(cmd *cobra.Command, a *answer, m *mountinfo.Info, many bool) error {
	records, err := a.records()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if len(records) > 0 {
		if many {
			fmt.Fprintf(&text, "%s:\n", m.Mountpoint)
		}
		if err := writeTable(&text, records); err != nil {
			return err
		}
	}
	a.line = ofMount(a.line, m)
	return a.print(cmd, f.asJSON, text.String())
}

// ofMount is a JSON object with the mount point as its first key.
func ofMount(object []byte, m *mountinfo.Info) []byte {
	rest, isObject := bytes.CutPrefix(object, []byte("{"))
	if !isObject {
		return object
	}
	indent := 0
	if bytes.HasPrefix(rest, []byte("\n")) {
		indent = 1
	}
	w := printable.AppendTo(nil, indent)
	w.Open("", '{')
	w.Raw("mount", m.Mountpoint)
	return slices.Concat(w.Bytes(), []byte(","), rest)
}

// writeTable writes what is held as a table.
func writeTable(w io.Writer, records []lockRecord) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FILE\tHOLDER\tOPERATION\tMODE\tSINCE\tHEARTBEAT")
	for _, r := range records {
		if h := r.Holder; h != nil {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n",
				r.name(), h.who(), orDash(h.Operation), orDash(h.Mode), localTime(h.CreatedAt), r.heartbeat())
		}
	}
	return table.Flush()
}

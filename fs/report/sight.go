package report

// Sight tells what one viewer may know of. It may be used by several goroutines.
type Sight interface {
	// Sees reports whether the viewer may know of a path, and of everything that is
	// said about it. uid is the user whom that concerns: it may know of what it has
	// done to paths that are gone.
	Sees(path string, uid uint32) bool
	// Stands reports whether all that Sees has said so far would be said again: a
	// directory may have been opened or closed to the viewer since.
	Stands() bool
}

// ShownTo is the record as the viewer may see it, false if the viewer may not know of
// it. Others' labels, command lines and working directories are theirs. A nil Sight
// sees everything.
func (r *Record) ShownTo(v Viewer, sight Sight) (*Record, bool) {
	if sight == nil {
		return r, true
	}
	if r.Name == "" && !sight.Sees(r.Path, r.UID) {
		return nil, false
	}
	file := r.File == "" || sight.Sees(r.File, r.UID)
	key := r.Key == "" || r.Key == r.ID() || sight.Sees(r.Key, r.UID)
	if file && key && v.sees(r.UID) {
		return r, true
	}
	out := *r
	if !file {
		out.File = ""
	}
	if !key {
		out.Key = ""
	}
	if !v.sees(r.UID) {
		out.Actor, out.Cmdline, out.Cwd = "", nil, ""
	}
	return &out, true
}

// ShownInTheWay is the record of whoever keeps the viewer from the path that it asked
// for, nil if r is: the lock itself may be on something of which it may not know.
func (r *Record) ShownInTheWay(path string, v Viewer, sight Sight) *Record {
	if r == nil {
		return nil
	}
	if out, ok := r.ShownTo(v, sight); ok {
		return out
	}
	asked := *r
	asked.Path, asked.Key, asked.File, asked.Tree = path, "", "", false
	if out, ok := asked.ShownTo(v, sight); ok {
		return out
	}
	asked.Path, asked.Actor, asked.Cmdline, asked.Cwd = "", "", nil, ""
	return &asked
}

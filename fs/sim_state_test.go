package fs

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// simState is a state of the model: what each name holds, and which name each open file
// of a writer stands for. A name is the number of its directory with the last part
// ("0/d" is d in the root), so that it stays when a directory above is renamed; it holds
// a version, or "dir:" with the number of a directory. An open file is "#" with its
// number, and stands for a name, or "-" when that was taken away, followed by the name if
// another file has it now. What several names have in common is "=" with a number, which
// holds the version.
type simState map[string]string

// at is the name that a path is; false if there is no such directory. A directory may be
// given that the path led to before.
func (s simState) at(path, instead string) (name string, ok bool) {
	dir := "0"
	if i := strings.LastIndexByte(path, '/'); i >= 0 && instead != "" {
		return instead + path[i:], true
	}
	parts := strings.Split(path, "/")
	for _, part := range parts[:len(parts)-1] {
		if dir, ok = strings.CutPrefix(s[dir+"/"+part], "dir:"); !ok {
			return "", false
		}
	}
	return dir + "/" + parts[len(parts)-1], true
}

func isDirValue(v string) bool { return strings.HasPrefix(v, "dir:") }

// holds is the version that a name holds, or the directory; "" if there is none.
func (s simState) holds(name string) string {
	v, _ := s.raw(name)
	version, _ := splitAttrs(v)
	return version
}

// set gives a name another version, whose attributes are those of the one before, but for its
// time.
func (s simState) set(name, version string) {
	v, at := s.raw(name)
	was, _ := splitAttrs(v)
	time := ""
	if was == "empty" && version == "empty" {
		time = unknownTime
	}
	s[at] = withAttrs(version, v, simAttrs{simTime: time})
}

// removed is where a state keeps what a process has taken away from a name.
func (o simOp) removed(name string) string { return "~" + o.who + "/" + name }

// steps are the states after an operation; none if it could not have gone like that. One
// that is refused may have put back what its process had taken away before (DESIGN §6), or
// whoever had written the file that it renames; one whose process was killed has happened or
// not, and one beside which a directory was renamed may have come to another directory than its
// path names now.
func (s simState) steps(o simOp) (all []any) {
	known := []simOp{o}
	if o.known == "" { // nobody may know any more what was read, or only an earlier version
		for _, o.known = range o.bases {
			known = append(known, o)
		}
	}
	ways := slices.Clone(known)
	if o.wide {
		for _, v := range s {
			if dir, ok := strings.CutPrefix(v, "dir:"); ok {
				for _, o := range known {
					ways = append(ways, o.in(dir, o.dirTo), o.in(o.dir, dir), o.in(dir, dir))
				}
			}
		}
	}
	for _, o := range ways {
		if ok, n := s.stepIn(o); ok {
			all = append(all, n)
		}
	}
	for _, path := range []string{o.path, o.to} {
		name, ok := s.at(path, "")
		if !ok || s[name] != "" || o.errno != unix.EBUSY && o.errno != unix.EBADMSG && !o.killed {
			continue
		}
		for k, v := range s {
			if k == o.removed(name) || o.kind == "rename" && k[0] == '~' && strings.HasSuffix(k, "/"+name) {
				n := maps.Clone(s)
				n[name] = v
				all = append(all, n)
			}
		}
	}
	if (o.kind == "append" || o.kind == "cutlog") && o.errno == 0 && strings.HasPrefix(s["#"+o.handle], "-") {
		all = append(all, s) // to a file that has no name any more
	}
	for _, o := range known {
		if n, ok := s.halfMerged(o); ok {
			all = append(all, n)
		}
	}
	if o.killed || o.wide && o.errno == unix.ENOENT { // it may have come to a directory that was replaced
		all = append(all, s)
	}
	return all
}

// halfMerged is the state after a save that was merged and not renamed, for the daemon died in
// between: the temporary file holds what both have made.
func (s simState) halfMerged(o simOp) (simState, bool) {
	from, one := s.at(o.path, o.dir)
	to, two := s.at(o.to, o.dirTo)
	if o.kind != "rename" || !o.killed || o.known == "" || len(o.bases) == 0 || !one || !two {
		return nil, false
	}
	version, ok := s.joined(o, to, s.holds(from))
	n := maps.Clone(s)
	n.set(from, version)
	return n, ok && s[from] != ""
}

// in is an operation whose paths lead to these directories.
func (o simOp) in(dir, dirTo string) simOp {
	o.dir, o.dirTo = dir, dirTo
	return o
}

// stepUnjudged is step without validators.
func (s simState) stepUnjudged(o simOp) (bool, simState) {
	name, ok := s.at(o.path, o.dir)
	has := ""
	if ok {
		has = s.holds(name)
	}
	switch {
	case o.errno == unix.ENOENT && o.kind == "link":
		return true, s // as link(2) does if the file is replaced before it has got its name
	case o.errno == unix.ENOENT && o.kind == "rename":
		to, ok := s.at(o.to, o.dirTo)
		return has == "" || !ok || o.flags&unix.RENAME_EXCHANGE != 0 && s[to] == "", s
	case o.errno == unix.ENOENT && o.kind == "open":
		return !ok, s
	case o.errno == unix.ENOENT:
		return has == "", s
	case o.errno != 0:
		return true, s
	case o.kind == "read":
		return has == o.version || o.cut && strings.HasPrefix(has, o.version+"{"), s
	case o.kind == "stat", o.kind == "hasattrs":
		return has != "" && s.hasAttrs(name, o.attrs), s
	}
	n := maps.Clone(s)
	switch o.kind {
	case "open":
		n["#"+o.handle] = name
		return ok, n
	case "write":
		name = s["#"+o.handle]
		if name == "" {
			return false, s
		}
		version, may := s.joined(o, name, o.version)
		if name[0] != '-' {
			n.set(name, version)
			n.setAttrs(name, o.attrs)
		}
		return may, n
	case "attribute":
		n.setAttrs(name, o.attrs)
		return has != "" && !isDirValue(has), n
	case "attributes":
		if name = s["#"+o.handle]; s[name] != "" {
			n.setAttrs(name, o.attrs)
		}
		return name != "", n
	case "find":
		n["#"+o.handle] = name
		return has != "" && !isDirValue(has), n
	case "openlog":
		n["#"+o.handle] = name
		if has == "" {
			n[name] = "empty"
		}
		return ok, n
	case "append":
		name = strings.TrimPrefix(s["#"+o.handle], "-")
		if has := s.holds(name); has != "" {
			n.set(name, has+"{"+o.version+"}")
		}
		return true, n
	case "cutlog":
		if name = strings.TrimPrefix(s["#"+o.handle], "-"); s.holds(name) != "" {
			n.set(name, "empty")
		}
		return true, n
	case "appear":
		n[name] = o.version
		return ok && has == "", n
	case "truncate":
		n.set(name, "empty")
		return has != "" && !isDirValue(has), n
	case "commit":
		return s.commit(n, o), n
	case "link":
		return s.link(n, o)
	case "unlink":
		n.take(name, "-")
		n[o.removed(name)] = s[name]
		return has != "" && !isDirValue(has) && s.mayReplace(o, name), n
	case "mkdir":
		n[name] = "dir:" + o.handle
		return ok && has == "", n
	case "rmdir":
		delete(n, name)
		return isDirValue(has) && !s.hasBelow(has), n
	case "rename":
		return s.rename(n, o, name)
	}
	return true, s
}

// take takes a name away, and with it the open files that stand for it, which get
// another. A file that has a further name goes on to be written under that, until it loses
// its last.
func (s simState) take(name, to string) {
	common, last := s[name], false
	delete(s, name)
	if strings.HasPrefix(common, "=") && strings.HasPrefix(to, "-") {
		if last = !s.hasName(common); !last {
			to = common
		}
	}
	for k, v := range s {
		if k[0] == '#' && (v == name || last && v == common) {
			s[k] = to
		}
	}
}

func (s simState) rename(n simState, o simOp, name string) (bool, simState) {
	to, ok := s.at(o.to, o.dirTo)
	was, over := s[name], s[to]
	if was == "" { // it is still open, and has been written
		was = o.version
	}
	version, _ := splitAttrs(was)
	made, may := s.joined(o, to, version)
	made = withAttrs(made, was, nil)
	switch {
	case was == "" || !ok:
		return false, s
	case name == to || was == over && was[0] == '=':
		return o.flags&unix.RENAME_NOREPLACE == 0, s
	case over != "" && o.flags&unix.RENAME_NOREPLACE != 0, !may:
		return false, s
	case o.flags&unix.RENAME_EXCHANGE != 0:
		n.take(to, "x")
		n.take(name, to)
		n.take("x", name)
		n[name], n[to] = over, was
		return over != "" && !isDirValue(over) && !isDirValue(was), n
	case !isDirValue(was):
		n.take(to, "-"+to)
		n.take(name, to)
		n[o.removed(name)], n[to] = was, made
		return !isDirValue(over), n
	case over != "" && (!isDirValue(over) || s.hasBelow(over)):
		return false, s
	}
	delete(n, name)
	n[to] = was
	return true, n
}

// link gives a file that was found before a further name. What the name holds by which it was
// found may be another file by now.
func (s simState) link(n simState, o simOp) (bool, simState) {
	to, ok := s.at(o.to, o.dirTo)
	name := s["#"+o.handle]
	was := s[name]
	if strings.HasPrefix(name, "=") && s.hasName(name) { // it has lost the name by which it was found
		was = name
	}
	if was == "" || !ok || s[to] != "" {
		return false, s
	}
	delete(n, "#"+o.handle)
	if was[0] != '=' {
		n["="+o.handle] = was
		was = "=" + o.handle
		n[name] = was
	}
	n[to] = was
	return true, n
}

// hasName reports whether what several names had in common has one still.
func (s simState) hasName(common string) bool {
	for name, v := range s {
		if v == common && !strings.ContainsRune("#~!", rune(name[0])) {
			return true
		}
	}
	return false
}

func (s simState) hasBelow(dir string) bool {
	for name := range s {
		if strings.HasPrefix(name, strings.TrimPrefix(dir, "dir:")+"/") {
			return true
		}
	}
	return false
}

// mayReplace reports whether a program may replace what a name holds.
func (s simState) mayReplace(o simOp, name string) bool {
	_, ok := s.joined(o, name, o.version)
	return ok
}

// joined is what a name holds after a program has replaced that: its own version, if it has
// read what was there, and nothing is lost where there is nothing; or what both have made. It
// is false if something would be lost.
func (s simState) joined(o simOp, name, mine string) (version string, ok bool) {
	switch has := s.holds(name); {
	case o.known == "", has == o.known, has == "":
		return mine, true
	case len(o.bases) > 0:
		return joinSheets(o.known, has, mine)
	}
	return "", false
}

// widen marks the operations beside which a directory was renamed.
func (m *simModel) widen() {
	for i := range m.ops {
		x := &m.ops[i]
		o := x.Input.(simOp)
		for _, y := range m.ops {
			r := y.Input.(simOp)
			if r.kind == "rename" && r.errno == 0 && (r.path == "d" || r.path == "e") && y.Call < x.Return && x.Call < y.Return {
				o.wide = true
			}
		}
		x.Input = o
	}
}

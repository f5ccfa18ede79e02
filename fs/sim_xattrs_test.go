package fs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/reach"
)

// Modes, extended attributes and access control lists: they are a file's, and go with it when it
// is renamed. A program that writes the file anew keeps them; one that puts another file in its
// place replaces them. What a program sets through a descriptor by which it writes is everybody's
// with what it writes, or nobody's.

// simNote is the extended attribute that programs set.
const simNote = "user.note"

// drawAttributes adds commands that set and read attributes, as drawLocks does.
func (s *simScript) drawAttributes(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 35))
	if r.IntN(4) != 0 {
		return
	}
	for range 2 + r.IntN(4) {
		name := names[r.IntN(len(names))]
		line := []string{
			"label", "label", "label", "unlabel", "relabel", "relabel", "labelonly", "grant", "chmod", "ask", "ask", "ask", "ask", "stat", "stat", "echo", "save",
		}[r.IntN(17)] + " " + name
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), line)
	}
}

// The system calls of the simulated kernel.

// changeXattr sends a request that changes an extended attribute, under the lock of the inode.
func (k *simKernel) changeXattr(p *simProc, n *simInode, what string, do func(h Request, cancel <-chan struct{}) unix.Errno) unix.Errno {
	if e := k.getattr(p, n); e != 0 {
		return e
	}
	n.lock.lock(true)
	defer n.lock.unlock(true)
	e := k.request(p, fmt.Sprintf("%s of node %d", what, n.id), func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = n.id
		return do(h, cancel)
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	n.until = seen(-1)
	return e
}

func (k *simKernel) setxattr(p *simProc, n *simInode, attr, value string) unix.Errno {
	return k.changeXattr(p, n, "SETXATTR "+attr, func(h Request, cancel <-chan struct{}) unix.Errno {
		return k.fs.SetXAttr(cancel, &SetXAttrRequest{Request: h}, attr, []byte(value))
	})
}

func (k *simKernel) removexattr(p *simProc, n *simInode, attr string) unix.Errno {
	return k.changeXattr(p, n, "REMOVEXATTR "+attr, func(h Request, cancel <-chan struct{}) unix.Errno {
		return k.fs.RemoveXAttr(cancel, &h, attr)
	})
}

// getxattr reads an extended attribute, "" if there is none.
func (k *simKernel) getxattr(p *simProc, n *simInode, attr string) (value string, e unix.Errno) {
	buf := make([]byte, 256)
	e = k.request(p, fmt.Sprintf("GETXATTR %s of node %d", attr, n.id), func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = n.id
		size, st := k.fs.GetXAttr(cancel, &h, attr, buf)
		value = string(buf[:min(int(size), len(buf))])
		return st
	})
	if e == unix.ENODATA {
		return "", 0
	}
	return value, e
}

// listxattr reports whether a file has an extended attribute.
func (k *simKernel) listxattr(p *simProc, n *simInode, attr string) (has bool, e unix.Errno) {
	buf := make([]byte, 256)
	e = k.request(p, fmt.Sprintf("LISTXATTR of node %d", n.id), func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = n.id
		size, st := k.fs.ListXAttr(cancel, &h, buf)
		has = slices.ContainsFunc(bytes.Split(buf[:min(int(size), len(buf))], []byte{0}), func(b []byte) bool { return string(b) == attr })
		return st
	})
	return has, e
}

// onPath makes a system call on the file that a path leads to.
func (k *simKernel) onPath(p *simProc, path string, do func(n *simInode) unix.Errno) unix.Errno {
	return again(func(reval bool) unix.Errno {
		_, _, n, e := k.fileAt(p, path, reval, unix.EISDIR)
		if e != 0 {
			return e
		}
		return do(n)
	})
}

// The commands.

// newLabel is a value that no other program sets.
func (p *simProc) newLabel() string { return p.w.model.newVersion(p) }

// label gives a file an attribute, or takes it away: an empty one is none.
func (p *simProc) label(path, attr, value string) {
	nr, what := unix.SYS_SETXATTR, "gives "+path+" the "+attr+" "+value
	if value == "" {
		nr, what = unix.SYS_REMOVEXATTR, "takes the "+attr+" from "+path
	}
	p.enter(nr, what, path, attr)
	began := p.w.now()
	e := p.kernel.onPath(p, path, func(n *simInode) unix.Errno {
		if value == "" {
			return p.kernel.removexattr(p, n, attr)
		}
		return p.kernel.setxattr(p, n, attr, value)
	})
	p.w.logf("%s %s: %s", p, what, result(e))
	o := simOp{kind: "attribute", path: path, attrs: simAttrs{attr: shownAs(attr, value)}, errno: e}
	if attr == reach.ACLAttr {
		o.attrs[simMode] = "" // newGrant says so
	}
	if e == unix.ENODATA {
		o.kind, o.errno = "hasattrs", 0
	}
	p.w.model.did(p, o, began)
	p.leave()
}

// relabel opens a file to write it, and sets an attribute through the descriptor. writes: it also
// writes the file anew.
func (p *simProc) relabel(path string, writes bool) {
	flags := uint32(unix.O_RDWR)
	if writes {
		flags = unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC
	}
	fd, f, e := p.open(path, flags)
	if e != 0 {
		return
	}
	f.version = unchanged
	value := p.newLabel()
	p.enter(unix.SYS_FSETXATTR, "fsetxattr "+path)
	e = f.k.setxattr(p, f.inode, simNote, value)
	p.w.logf("%s gives the open %s the %s %s: %s", p, path, simNote, value, result(e))
	if e == 0 {
		f.attrs = simAttrs{simNote: value}
		got, e := f.k.getxattr(p, f.inode, simNote)
		if e == 0 && got != value && !f.isRobbed() && !f.k.isDead() && !p.w.model.hasLive() {
			p.w.failf("%s reads back the attribute %q of %s, not %q", p, got, path, value)
		}
	}
	p.leave()
	if writes {
		p.fill(fd, f)
		return
	}
	p.close(fd)
}

// askAttributes reads the attributes of a file, one after the other.
func (p *simProc) askAttributes(path string) {
	for _, attr := range []string{simNote, reach.ACLAttr} {
		p.enter(unix.SYS_GETXATTR, "getxattr "+path+" "+attr, path, attr)
		began := p.w.now()
		var value string
		e := p.kernel.onPath(p, path, func(n *simInode) (e unix.Errno) {
			value, e = p.kernel.getxattr(p, n, attr)
			return e
		})
		value = shownAs(attr, value)
		p.w.logf("%s asks for the %s of %s: %s, %q", p, attr, path, result(e), value)
		p.w.model.did(p, simOp{kind: "hasattrs", path: path, attrs: simAttrs{attr: value}, errno: e}, began)
		p.leave()
	}
	p.enter(unix.SYS_LISTXATTR, "listxattr "+path, path)
	began, has := p.w.now(), false
	e := p.kernel.onPath(p, path, func(n *simInode) (e unix.Errno) {
		has, e = p.kernel.listxattr(p, n, simNote)
		return e
	})
	p.w.logf("%s lists the attributes of %s: %s, %t", p, path, result(e), has)
	p.w.model.did(p, simOp{kind: "hasattrs", path: path, attrs: simAttrs{simNote: map[bool]string{true: anyValue}[has]}, errno: e}, began)
	p.leave()
}

// newGrant is an access control list that names a user whom no other one names.
func (p *simProc) newGrant() string {
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	who := 100_000 + uint32(len(p.newLabel())) + uint32(p.pid-firstPID)*100
	for _, x := range [][3]uint32{{0x01, 6, ^uint32(0)}, {0x02, 4, who}, {0x04, 4, ^uint32(0)}, {0x10, 4, ^uint32(0)}, {0x20, 4, ^uint32(0)}} {
		acl = binary.LittleEndian.AppendUint16(acl, uint16(x[0]))
		acl = binary.LittleEndian.AppendUint16(acl, uint16(x[1]))
		acl = binary.LittleEndian.AppendUint32(acl, x[2])
	}
	return string(acl)
}

// shownAs is an attribute's value as the model has it: of an access control list, the user whom it
// names. A change of the mode changes the rest.
func shownAs(attr, value string) string {
	if attr == reach.ACLAttr && len(value) >= 20 {
		return fmt.Sprint(binary.LittleEndian.Uint32([]byte(value[16:20])))
	}
	return value
}

// What the model has of them: behind the version that a name holds, and a "|".

// simAttrs are attributes by name; "mode" is the mode. "" is none, or the ordinary one.
type simAttrs map[string]string

const (
	simMode  = "mode"
	anyValue = "?" // of one that has been seen in a list
)

// modeSeen is the mode of a file as the model has it.
func modeSeen(mode uint32) simAttrs {
	if mode &= 0o7777; mode != 0o644 {
		return simAttrs{simMode: fmt.Sprintf("%o", mode)}
	}
	return simAttrs{simMode: ""}
}

// splitAttrs takes what a name holds apart.
func splitAttrs(v string) (version, attrs string) {
	version, attrs, _ = strings.Cut(v, "|")
	return version, attrs
}

// parseAttrs are the attributes behind a version.
func parseAttrs(v string) simAttrs {
	_, text := splitAttrs(v)
	all := simAttrs{}
	for part := range strings.SplitSeq(text, ",") {
		if attr, value, ok := strings.Cut(part, "="); ok {
			all[attr] = value
		}
	}
	return all
}

// withAttrs is a version with what a name holds beside it, which some attributes change.
func withAttrs(version, held string, change simAttrs) string {
	all := parseAttrs(held)
	maps.Copy(all, change)
	var text []string
	for _, attr := range slices.Sorted(maps.Keys(all)) {
		if all[attr] != "" {
			text = append(text, attr+"="+all[attr])
		}
	}
	if len(text) == 0 {
		return version
	}
	return version + "|" + strings.Join(text, ",")
}

// raw is what a name holds, with its attributes, and where it is held.
func (s simState) raw(name string) (v, at string) {
	if v := s[name]; strings.HasPrefix(v, "=") {
		return s[v], v
	}
	return s[name], name
}

// setAttrs changes attributes of what a name holds.
func (s simState) setAttrs(name string, change simAttrs) {
	if len(change) == 0 {
		return
	}
	v, at := s.raw(name)
	version, _ := splitAttrs(v)
	s[at] = withAttrs(version, v, change)
}

// hasAttrs reports whether what a name holds has these attributes.
func (s simState) hasAttrs(name string, want simAttrs) bool {
	v, _ := s.raw(name)
	is := parseAttrs(v)
	for attr, value := range want {
		if attr == simTime && is[attr] == unknownTime {
			continue
		}
		if is[attr] != value && (value != anyValue || is[attr] == "") {
			return false
		}
	}
	return true
}

// knowsAttrs reports whether the model keeps attributes.
func (m *simModel) knowsAttrs() bool { return m.w.opts.script.hazards.cuts == 0 }

// What a program sets through the descriptor by which it writes a file is everybody's at its close,
// and goes with the file; what another one puts in its place has none.
func TestAttributesOfAWrite(t *testing.T) {
	script := parseScript("ann: relabel a; mv a b | bob: ask a; ask a; ask b | cyn: save b; ask b", simHazards{})
	w := inTurnsOf(t, simOptions{seed: 1, script: script, turns: []string{
		"ann until WRITE a at 6", "bob until call getxattr a", "bob until call listxattr a", "bob until call getxattr a", "ann until call rename", "bob until call getxattr b", "ann to the end", "bob to the end", "cyn to the end",
	}})
	story := w.transcript()
	for _, want := range []string{`the user.note of a: ok, ""`, `the user.note of a: ok, "ann1"`, `the user.note of b: ok, "ann1"`, `cyn[3] asks for the user.note of b: ok, ""`} {
		if !strings.Contains(story, want) {
			t.Errorf("there is no %s", want)
		}
	}
}

// A program has found a file by its name when another one that writes it closes it. What the first
// one sets is the new version's, as it would be on a plain directory, where the file is the same.
func TestAttributeBesideACommit(t *testing.T) {
	for command, request := range map[string]string{"label": "SETXATTR", "grant": "SETXATTR", "chmod": "SETATTR"} {
		t.Run(command, func(t *testing.T) {
			inTurns(t, []simProgram{simProgramOf("ann", command+" a", "ask a", "stat a"), simProgramOf("bob", "echo a")},
				"bob until call close a", "ann until "+request, "bob to the end", "ann to the end")
			inTurns(t, []simProgram{simProgramOf("ann", command+" a", "ask a", "stat a"), simProgramOf("bob", "echo a")},
				"ann until "+request, "bob to the end", "the kernel to the end", "ann to the end")
		})
	}
	inTurns(t, []simProgram{simProgramOf("ann", "unlabel a", "ask a"), simProgramOf("cyn", "label a"), simProgramOf("bob", "echo a")},
		"cyn to the end", "ann until REMOVEXATTR", "bob to the end", "ann to the end")
}

// A program has found a file by its name when another one begins to write it, and gives it an
// attribute through the descriptor. Nobody sees that before the close.
func TestAttributeBeforeTheClose(t *testing.T) {
	for _, request := range []string{"GETXATTR", "LISTXATTR"} {
		w := inTurns(t, []simProgram{simProgramOf("ann", "relabel a"), simProgramOf("bob", "ask a", "ask a")},
			"bob until "+request, "ann until WRITE a at 6", "bob to the end", "kill ann", "ann to the end")
		if strings.Contains(w.transcript(), `of a: ok, "ann`) || strings.Contains(w.transcript(), "of a: ok, true") {
			t.Errorf("what ann has not committed is seen in the answer to a %s", request)
		}
	}
}

// What a program sets through a descriptor it reads there, also where the file stays what it is for
// somebody else.
func TestAttributeThroughADescriptor(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "relabel a"), simProgramOf("bob", "hold a")}, "bob until call close a", "ann until call write a", "bob to the end", "ann to the end")
}

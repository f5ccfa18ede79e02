// Package access judges what a user may do with a file, as the kernel does it for
// permission bits and POSIX ACLs (acl(5), path_resolution(7)). It is pure: what there
// is to know about the file and the user the caller says. Capabilities are not its
// business, and neither is root.
package access

import (
	"encoding/binary"
	"errors"
	"slices"
)

// The rights of access(2).
const (
	Read   = 4
	Write  = 2
	Search = 1
)

// User is whose rights are asked for.
type User struct {
	UID  uint32
	GIDs []uint32 // the group it acts as, and the supplementary ones
	// All: GIDs are all of its groups. Otherwise the user may be in any, and so is
	// denied what a group is denied.
	All bool
}

// File is what decides who may do what with a file.
type File struct {
	UID, GID uint32
	Mode     uint32 // permission bits; with an ACL those of the group are its mask
	ACL      ACL    // nil: there is none
}

// ACL is an access ACL.
type ACL []entry

type entry struct {
	tag, perm uint16
	id        uint32
}

// The tags of entries, from linux/posix_acl.h.
const (
	tagUserObj  = 0x01
	tagUser     = 0x02
	tagGroupObj = 0x04
	tagGroup    = 0x08
	tagMask     = 0x10
	tagOther    = 0x20
)

const (
	aclVersion = 2
	entrySize  = 8
)

// ErrACL is the error of an ACL that cannot be read.
var ErrACL = errors.New("not an ACL")

// ParseACL reads the extended attribute system.posix_acl_access.
func ParseACL(b []byte) (ACL, error) {
	if len(b) < 4 || binary.LittleEndian.Uint32(b) != aclVersion || len(b)%entrySize != 4 {
		return nil, ErrACL
	}
	acl := make(ACL, 0, len(b)/entrySize)
	var seen uint16
	for b = b[4:]; len(b) > 0; b = b[entrySize:] {
		e := entry{binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:])}
		acl = append(acl, e)
		seen |= e.tag
	}
	if needed := uint16(tagUserObj | tagGroupObj | tagOther); seen&needed != needed {
		return nil, ErrACL
	}
	return acl, nil
}

// Group are the rights that the ACL gives to the file's own group; an ACL that is not known gives
// none.
func (acl ACL) Group() uint32 {
	var group, mask uint32
	mask = Read | Write | Search
	for _, e := range acl {
		switch e.tag {
		case tagGroupObj:
			group = uint32(e.perm)
		case tagMask:
			mask = uint32(e.perm)
		}
	}
	return group & mask & (Read | Write | Search)
}

// May reports whether the user has all the rights want to the file.
func (u *User) May(want uint32, f *File) bool {
	if f.ACL != nil {
		return u.mayByACL(want, f)
	}
	mode := f.Mode
	switch {
	case u.UID == f.UID:
		mode >>= 6
	case slices.Contains(u.GIDs, f.GID):
		mode >>= 3
	case !u.All:
		mode &= mode >> 3
	}
	return mode&want == want
}

// mayByACL is the access check algorithm of acl(5). The first entry that is about the
// user decides; of several about its groups one that grants everything is enough.
func (u *User) mayByACL(want uint32, f *File) bool {
	mask := uint32(Read | Write | Search)
	for _, e := range f.ACL {
		if e.tag == tagMask {
			mask = uint32(e.perm)
		}
	}
	grants := func(e *entry, mask uint32) bool { return uint32(e.perm)&mask&want == want }
	inGroup, denied := false, false // denied: by a group that it may be in
	granted := false
	other := false
	for i := range f.ACL {
		e := &f.ACL[i]
		var of bool // it is about one of the user's groups
		switch e.tag {
		case tagUserObj:
			if u.UID == f.UID {
				return grants(e, ^uint32(0))
			}
			continue
		case tagUser:
			if u.UID == e.id && u.UID != f.UID {
				return grants(e, mask)
			}
			continue
		case tagGroupObj:
			of = slices.Contains(u.GIDs, f.GID)
		case tagGroup:
			of = slices.Contains(u.GIDs, e.id)
		case tagOther:
			other = grants(e, ^uint32(0))
			continue
		default:
			continue
		}
		switch {
		case of:
			inGroup = true
			granted = granted || grants(e, mask)
		case !u.All && !grants(e, mask):
			denied = true
		}
	}
	if inGroup {
		return granted
	}
	return other && !denied
}

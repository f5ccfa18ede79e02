package access

import (
	"encoding/binary"
	"testing"
)

// acl makes an ACL of entries of three numbers: tag, permissions, id.
func acl(t *testing.T, entries ...[3]uint32) ACL {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
	}
	a, err := ParseACL(b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const none = ^uint32(0)

// The kernel's rules, case by case.
func TestMay(t *testing.T) {
	deny := acl(t, [3]uint32{tagUserObj, 6, none}, [3]uint32{tagUser, 0, 20}, [3]uint32{tagGroupObj, 4, none},
		[3]uint32{tagMask, 4, none}, [3]uint32{tagOther, 4, none})
	groups := acl(t, [3]uint32{tagUserObj, 7, none}, [3]uint32{tagGroupObj, 0, none}, [3]uint32{tagGroup, 7, 300},
		[3]uint32{tagGroup, 0, 301}, [3]uint32{tagMask, 5, none}, [3]uint32{tagOther, 1, none})
	of := func(uid uint32, gids ...uint32) User { return User{UID: uid, GIDs: gids, All: true} }
	some := func(uid uint32, gids ...uint32) User { return User{UID: uid, GIDs: gids} }
	for name, c := range map[string]struct {
		u    User
		want uint32
		f    File
		may  bool
	}{
		"owner":                               {of(10, 100), Read, File{UID: 10, GID: 100, Mode: 0o600}, true},
		"an owner that its own bits deny":     {of(10, 100), Read, File{UID: 10, GID: 100, Mode: 0o077}, false},
		"group":                               {of(11, 7, 100), Read, File{UID: 10, GID: 100, Mode: 0o640}, true},
		"a group that is denied":              {of(11, 100), Search, File{UID: 10, GID: 100, Mode: 0o705}, false},
		"others beside a group that is not":   {of(11, 7), Search, File{UID: 10, GID: 100, Mode: 0o705}, true},
		"perhaps of a group that is denied":   {some(11, 7), Search, File{UID: 10, GID: 100, Mode: 0o705}, false},
		"others":                              {some(11, 7), Search, File{UID: 10, GID: 100, Mode: 0o711}, true},
		"others without the right":            {of(11, 7), Read, File{UID: 10, GID: 100, Mode: 0o711}, false},
		"a user whom the ACL denies":          {of(20, 7), Read, File{UID: 10, GID: 100, Mode: 0o644, ACL: deny}, false},
		"the same in a group that it grants":  {of(20, 100), Read, File{UID: 10, GID: 100, Mode: 0o644, ACL: deny}, false},
		"another user":                        {of(21, 7), Read, File{UID: 10, GID: 100, Mode: 0o644, ACL: deny}, true},
		"the owner beside an ACL":             {of(10, 7), Read | Write, File{UID: 10, GID: 100, Mode: 0o644, ACL: deny}, true},
		"a group of the ACL":                  {of(30, 300), Read | Search, File{UID: 10, GID: 100, Mode: 0o751, ACL: groups}, true},
		"beyond the mask":                     {of(30, 300), Write, File{UID: 10, GID: 100, Mode: 0o751, ACL: groups}, false},
		"one of two groups":                   {of(30, 301, 300), Read, File{UID: 10, GID: 100, Mode: 0o751, ACL: groups}, true},
		"a group that the ACL denies":         {of(30, 301), Search, File{UID: 10, GID: 100, Mode: 0o751, ACL: groups}, false},
		"others beside the ACL":               {of(30, 7), Search, File{UID: 10, GID: 100, Mode: 0o751, ACL: groups}, true},
		"perhaps of a group of the ACL":       {some(30, 7), Search, File{UID: 10, GID: 100, Mode: 0o751, ACL: groups}, false},
		"the owner's entry knows no mask":     {of(10, 7), Write, File{UID: 10, GID: 100, Mode: 0o751, ACL: groups}, true},
		"nothing is wanted, and nothing held": {of(11, 7), 0, File{UID: 10, GID: 100}, true},
	} {
		if got := c.u.May(c.want, &c.f); got != c.may {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzParseACL(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseACL(b)
		if (err == nil) != (a != nil) {
			t.Fatalf("%v, %v", a, err)
		}
		u := User{UID: 1}
		u.May(Read, &File{ACL: a})
	})
}

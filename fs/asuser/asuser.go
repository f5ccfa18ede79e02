// Package asuser runs single operations on files on behalf of another user than
// the daemon's.
//
// Linux keeps credentials for each thread (credentials(7)). While an operation runs, its
// goroutine is locked to its thread, and system calls change the credentials of that thread
// and no other. The Go runtime starts no thread from a locked one, so that nobody inherits
// them. A goroutine of its own for each operation would cost two changes of threads, which
// is more than most operations take.
//
// A change of credentials takes a signal that a thread asked for at its parent's end
// (PR_SET_PDEATHSIG) away from the thread.
//
// The package knows nothing of FUSE and nothing of the rest of the daemon.
package asuser

import (
	"errors"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Identity is a user and a primary group.
type Identity struct{ UID, GID uint32 }

// Nobody is the identity of no user in particular (user_namespaces(7), overflow ids).
var Nobody = Identity{65534, 65534}

// ErrIdentity says that the thread could not take the identity.
var ErrIdentity = errors.New("the daemon may not act on behalf of other users: CAP_SETUID and CAP_SETGID are needed")

// Do runs do as the user: what do creates belongs to the user from the first
// moment, and the user's quota and the space that the filesystem reserves for
// root bind it. What the daemon may do with files it still may: the caller has
// been checked by the kernel already, on the other side of the mount.
func (id Identity) Do(do func() error) error {
	return id.run(nil, func(all capabilities) capabilities { return all.without(unix.CAP_SYS_RESOURCE) }, do)
}

// DoOwn is Do for what a file's owner may do: without CAP_FOWNER the kernel refuses it
// for the files of others, as it does to the user's own processes.
func (id Identity) DoOwn(do func() error) error {
	return id.run(nil, func(all capabilities) capabilities { return all.without(unix.CAP_SYS_RESOURCE, unix.CAP_FOWNER) }, do)
}

// Judged runs do as the user with these supplementary groups and without any
// capability over files: the kernel decides what do may do as it decides for the
// user's own processes. For root the capabilities stay.
func (id Identity) Judged(groups []uint32, do func() error) error {
	if groups == nil {
		groups = []uint32{}
	}
	return id.run(groups, func(all capabilities) capabilities { return all.without(overFiles...) }, do)
}

// overFiles are the capabilities that permit what a file's owner, group and mode
// do not (capabilities(7)).
var overFiles = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
	unix.CAP_LINUX_IMMUTABLE, unix.CAP_MKNOD, unix.CAP_SYS_RESOURCE,
}

// Less runs do with the identity and without the capabilities.
func (id Identity) Less(do func() error, without ...int) error {
	own, err := ownCredentials()
	if err != nil {
		return err
	}
	return id.with(own, nil, own.caps.without(without...), do)
}

// run runs do with the identity and what is left of the capabilities.
func (id Identity) run(groups []uint32, keep func(capabilities) capabilities, do func() error) error {
	own, err := ownCredentials()
	if err != nil {
		return err
	}
	if id == own.id || id.UID == own.id.UID && groups != nil {
		return do()
	}
	caps := own.caps
	if id.UID != own.id.UID {
		caps = keep(caps)
	}
	return id.with(own, groups, caps, do)
}

// with runs do while its thread has the identity, the groups unless they are nil, and the
// capabilities.
func (id Identity) with(own *credentials, groups []uint32, caps capabilities, do func() error) error {
	runtime.LockOSThread()
	if !isID(unix.SYS_SETFSUID, own.id.UID) { // within another operation
		runtime.UnlockOSThread()
		done := make(chan error, 1)
		go func() { done <- id.with(own, groups, caps, do) }()
		return <-done
	}
	take := id.take
	back := own.id.take
	if id == own.id && groups == nil {
		take, back = takeCapabilities, takeCapabilities
	}
	defer func() {
		if err := back(own.groupsAfter(groups), own.caps); err != nil {
			panic(err) // whatever this thread did next, it would do as somebody else
		}
		runtime.UnlockOSThread()
	}()
	if err := take(groups, caps); err != nil {
		return err
	}
	return do()
}

// takeCapabilities is take for the identity that the thread has, which saves eight system
// calls for each registration of a backing file.
func takeCapabilities(_ []uint32, caps capabilities) error { return caps.set() }

// take gives the calling thread an identity, groups unless they are nil, and
// capabilities.
func (id Identity) take(groups []uint32, caps capabilities) error {
	if groups != nil {
		if err := setgroups(groups); err != nil {
			return errors.Join(ErrIdentity, err)
		}
	}
	if !setID(unix.SYS_SETFSGID, id.GID) || !setID(unix.SYS_SETFSUID, id.UID) {
		return errors.Join(ErrIdentity, unix.EPERM)
	}
	return caps.set() // those over files have gone with user 0, or come back with it
}

// setID is setfsuid(2) or setfsgid(2), which do not say whether they did anything.
func setID(call uintptr, id uint32) bool {
	_, _, _ = unix.RawSyscall(call, uintptr(id), 0, 0)
	return isID(call, id)
}

// isID asks setfsuid(2) or setfsgid(2), by an id that nobody can have, for the thread's.
func isID(call uintptr, id uint32) bool {
	now, _, _ := unix.RawSyscall(call, uintptr(^uint32(0)), 0, 0)
	return uint32(now) == id
}

// credentials are those of the daemon.
type credentials struct {
	id     Identity
	groups []uint32
	caps   capabilities
}

// groupsAfter are the groups to set after an operation with other groups.
func (own *credentials) groupsAfter(others []uint32) []uint32 {
	if others == nil {
		return nil
	}
	return own.groups
}

// ownCredentials reads the credentials with which the daemon was started, once.
var ownCredentials = sync.OnceValues(func() (*credentials, error) {
	own := &credentials{id: Identity{uint32(unix.Geteuid()), uint32(unix.Getegid())}, groups: []uint32{}}
	groups, err := unix.Getgroups()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		own.groups = append(own.groups, uint32(g))
	}
	own.caps, err = readCapabilities()
	return own, err
})

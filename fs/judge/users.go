package judge

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"latchfs/journal/validate"
)

// nobodyID is the number of the user nobody, and of its group, where no list of
// users says otherwise.
const nobodyID = 65534

// noID is (uid_t) -1, which is no user's number.
const noID = 1<<32 - 1

var errCommandRoot = errors.New("a command cannot run as root")

// errNoUser keeps a command from running as root.
var errNoUser = errors.New("the user as whom the command is to run is not known")

// Users are those as whom commands judge content. The zero value has nobody.
type Users struct {
	ourselves bool
	named     map[string]*validate.Credential
}

// Ourselves is for an ordinary user's mount: whomever the policy names, commands run as
// that user.
func Ourselves() Users { return Users{ourselves: true} }

// FindUsers looks up the users whom a policy names.
func FindUsers(names []string) (Users, error) {
	u := Users{named: map[string]*validate.Credential{}}
	for _, name := range names {
		c, err := credentialOf(name)
		if err != nil {
			return Users{}, fmt.Errorf("command-user %q of the policy: %w", name, err)
		}
		u.named[name] = c
	}
	return u, nil
}

// of is the user whom the policy names; nil is ourselves.
func (u *Users) of(name string) (*validate.Credential, error) {
	if u.ourselves {
		return nil, nil
	}
	if c := u.named[name]; c != nil {
		return c, nil
	}
	return nil, errNoUser
}

// credentialOf is a user with its groups, by name or number. A number without a
// name has the group of the same number.
func credentialOf(name string) (*validate.Credential, error) {
	number, notNumber := strconv.ParseUint(name, 10, 32)
	u, err := user.Lookup(name)
	if err != nil && notNumber == nil {
		u, err = user.LookupId(name)
	}
	switch {
	case err != nil && notNumber == nil && number == 0:
		return nil, errCommandRoot // 00, or where there is no list of users
	case err != nil && notNumber == nil && number == noID:
		return nil, errors.New("there is no such user") // setuid(2) takes it for a question
	case err != nil && notNumber == nil:
		return &validate.Credential{UID: uint32(number), GID: uint32(number)}, nil
	case err != nil && name == "nobody":
		return &validate.Credential{UID: nobodyID, GID: nobodyID}, nil
	case err != nil:
		return nil, errors.New("there is no such user")
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if uid == 0 {
		return nil, errCommandRoot
	}
	c := &validate.Credential{UID: uint32(uid), GID: uint32(gid)}
	groups, err := u.GroupIds()
	for _, id := range groups {
		g, bad := strconv.ParseUint(id, 10, 32)
		err = errors.Join(err, bad)
		c.Groups = append(c.Groups, uint32(g))
	}
	return c, err
}

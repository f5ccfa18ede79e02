package main

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"latchfs/fs/printable"
)

// author is who did something, as events and versions name him.
type author struct {
	Actor   string `json:"actor"`
	Program string `json:"program"`
	PID     int32  `json:"pid"`
	UID     *int   `json:"uid"`
}

// actorFlag is --actor: who is meant by a name.
type actorFlag struct {
	name string
	uid  string // of the user of that name
	// only is the user who is meant, whatever the name; nil: any. A label is the word
	// of whoever uses it, so what it stands for is a label of this user.
	only *int
}

// String implements pflag.Value.
func (f *actorFlag) String() string { return f.name }

// Type is the name of the value in the help.
func (f *actorFlag) Type() string { return "NAME" }

// Set reads the flag's value.
func (f *actorFlag) Set(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	f.name, f.uid = name, name
	if u, err := user.Lookup(name); err == nil {
		f.uid = u.Uid
	}
	return nil
}

// matches tells whether somebody is meant. Whoever has given himself a label is
// known by that alone; anybody else by his program, or by his user's name or number.
func (f *actorFlag) matches(a *author) bool {
	if f.only != nil && (a.UID == nil || *a.UID != *f.only) {
		return false
	}
	if a.Actor != "" && a.Actor != a.Program {
		return a.Actor == f.name
	}
	return a.Program == f.name || a.UID != nil && strconv.Itoa(*a.UID) == f.uid
}

// userFlag is --user: the user under whom somebody works.
type userFlag struct {
	name string
	uid  int
}

// String implements pflag.Value.
func (f *userFlag) String() string { return f.name }

// Type is the name of the value in the help.
func (f *userFlag) Type() string { return "USER" }

// Set reads a user's name or number.
func (f *userFlag) Set(name string) error {
	number := name
	if u, err := user.Lookup(name); err == nil {
		number = u.Uid
	}
	uid, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return fmt.Errorf("there is no user %q", name)
	}
	f.name, f.uid = name, int(uid)
	return nil
}

// narrow makes the actor one of this user, if the flag was given.
func (f *userFlag) narrow(a *actorFlag) {
	if f.name != "" {
		a.only = &f.uid
	}
}

// userName is how people know a user: "bob (61002)", or the number alone.
func userName(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return printable.Line(u.Username) + " (" + number + ")"
	}
	return "uid " + number
}

// withUser is String with the user beside the label, which anybody may give himself.
func (a *author) withUser() string {
	who := a.String()
	if strings.TrimSpace(a.Actor) == "" || a.Actor == a.Program || a.UID == nil {
		return who
	}
	return who + " of user " + userName(*a.UID)
}

// actorHelp says what --actor takes.
const actorHelp = `NAME is the label under which somebody works (LATCHFS_ACTOR); of those without
one it is the program, or the user's name or number. A label counts from the start
of a process: a script that sets the variable labels what it starts, and not itself;
for itself it calls 'latchfs label'`

// String names him as .locks/status does: "python3[4711] as agent-7".
func (a *author) String() string {
	who := program(a.Program, a.PID)
	switch {
	case a.Program == "" && a.Actor != "":
		return program(a.Actor, a.PID)
	case strings.TrimSpace(a.Actor) != "" && a.Actor != a.Program:
		return who + " as " + printable.Line(a.Actor)
	}
	return who
}

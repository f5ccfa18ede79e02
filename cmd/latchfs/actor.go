package main

import (
	"errors"
	"os/user"
	"strconv"
	"strings"

	"latchfs/fs/locksdir"
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
	if a.Actor != "" && a.Actor != a.Program {
		return a.Actor == f.name
	}
	return a.Program == f.name || a.UID != nil && strconv.Itoa(*a.UID) == f.uid
}

// actorHelp says what --actor takes.
const actorHelp = `NAME is the label under which somebody works (LATCHFS_ACTOR); of those without
one it is the program, or the user's name or number. A label counts from the start
of a process: a script that sets the variable labels what it starts, and not itself`

// String names him as .locks/status does: "python3[4711] as agent-7".
func (a *author) String() string {
	who := program(a.Program, a.PID)
	switch {
	case a.Program == "" && a.Actor != "":
		return program(a.Actor, a.PID)
	case strings.TrimSpace(a.Actor) != "" && a.Actor != a.Program:
		return who + " as " + locksdir.Display(a.Actor)
	}
	return who
}

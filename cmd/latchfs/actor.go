package main

import (
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

// matches tells whether somebody is meant by the name of --actor. Whoever has given
// himself a label is known by that alone; anybody else by his program, or by his
// user's name or number.
func (a *author) matches(name string) bool {
	if a.Actor != "" && a.Actor != a.Program {
		return a.Actor == name
	}
	return a.Program == name || a.UID != nil && isUser(*a.UID, name)
}

// actorHelp says what --actor takes.
const actorHelp = `NAME is the label under which somebody works (LATCHFS_ACTOR); of those without
one it is the program, or the user's name or number`

// isUser tells whether name is the user's.
func isUser(uid int, name string) bool {
	if name == strconv.Itoa(uid) {
		return true
	}
	u, err := user.Lookup(name)
	return err == nil && u.Uid == strconv.Itoa(uid)
}

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

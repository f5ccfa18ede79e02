package ctl

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"latchfs/fs/control"
	"latchfs/lockmgr"
)

// Actors are the labels that processes were given while they ran. What a process does
// that was given one, and what the processes below it do, is shown under the label.
// A label ends with its process.
type Actors struct {
	procs Procs
	env   []string
	done  <-chan struct{}
	n     atomic.Int32 // how many there are

	mu  sync.Mutex // guards all and what is in it
	all map[lockmgr.Owner]*actor
}

// actor is the label of one process.
type actor struct {
	name string
	env  string // the label that the process's environment has given it before
	uid  uint32 // of whoever has given it
}

// What bounds the labels of one user, and of all: a watched process costs a descriptor.
const (
	maxActorsOfUser = 256
	maxActors       = 4096
)

func newActors(c *Config) *Actors {
	return &Actors{procs: c.Procs, env: c.ActorEnv, done: c.Done, all: map[lockmgr.Owner]*actor{}}
}

// label gives a running process a label.
func (q *query) label() *control.Reply {
	owner, _, rep := q.holder()
	if rep != nil {
		return rep
	}
	if owner.PID == 0 {
		return refused(control.Unavailable, "a process in another pid namespace cannot be given a label")
	}
	if err := q.s.Actors.give(owner, q.r.Actor, q.c.UID()); err != nil {
		return refused(control.Unavailable, err.Error())
	}
	q.s.Engine.TellLabel(owner, q.r.Actor, q.c.UID())
	return &control.Reply{OK: true}
}

// give labels a process until it ends.
func (as *Actors) give(o lockmgr.Owner, name string, uid uint32) error {
	env := as.inEnv(o)
	as.mu.Lock()
	defer as.mu.Unlock()
	if a := as.all[o]; a != nil && (a.uid == uid || uid == 0) {
		a.name, a.uid = name, uid
		return nil
	} else if a != nil {
		return fmt.Errorf("process %d has a label that root has given it", o.PID)
	}
	mine := 0
	for _, a := range as.all {
		if a.uid == uid {
			mine++
		}
	}
	if mine >= maxActorsOfUser || len(as.all) >= maxActors {
		return errors.New("too many processes have a label")
	}
	dead, stop, err := as.procs.Watch(o)
	if err != nil {
		return err
	}
	as.all[o] = &actor{name: name, env: env, uid: uid}
	as.n.Add(1)
	go func() {
		defer stop()
		select {
		case <-dead:
			as.forget(o)
		case <-as.done:
		}
	}()
	return nil
}

func (as *Actors) forget(o lockmgr.Owner) {
	as.mu.Lock()
	defer as.mu.Unlock()
	delete(as.all, o)
	as.n.Add(-1)
}

// Of is the label of the nearest of a process and those above it that has one: of one
// that the process's own user has given, or root. The label in the process's environment
// counts where it was set below.
func (as *Actors) Of(c Caller) string {
	if c.Foreign() {
		return ""
	}
	env := as.inEnv(c.Owner())
	if as.n.Load() == 0 {
		return env
	}
	if name, found := as.at(c, c.Owner(), env); found {
		return name
	}
	for _, a := range c.Ancestors() {
		if name, found := as.at(c, a.Owner, env); found {
			return name
		}
	}
	for _, o := range as.procs.Family(c.Owner()).Above { // of an orphan
		if name, found := as.at(c, o, env); found {
			return name
		}
	}
	return env
}

func (as *Actors) at(c Caller, o lockmgr.Owner, env string) (name string, found bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.all[o]
	if a == nil || a.uid != c.UID() && a.uid != 0 {
		return "", false
	}
	if env != "" && env != a.env {
		return env, true
	}
	return a.name, true
}

// inEnv is the label in the environment that a process was started with.
func (as *Actors) inEnv(o lockmgr.Owner) string {
	if len(as.env) == 0 {
		return ""
	}
	return as.procs.EnvOf(o, as.env)
}

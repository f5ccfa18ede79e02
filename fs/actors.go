package fs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"latchfs/fs/control"
	"latchfs/journal"
	"latchfs/lockmgr"
)

// actors are the labels that processes were given while they ran. What a process does
// that was given one, and what the processes below it do, is shown under the label.
// A label ends with its process.
type actors struct {
	f *FS
	n atomic.Int32 // how many there are

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

// eventActor says in the audit trail that a process was given a label.
const eventActor = "actor"

// label gives a running process a label.
func (q *query) label() *control.Reply {
	f := q.f
	owner, _, rep := q.holder()
	if rep != nil {
		return rep
	}
	if owner.PID == 0 {
		return refused(control.Unavailable, "a process in another pid namespace cannot be given a label")
	}
	if err := f.actors.give(owner, f.actorInEnv(owner), q.r.Actor, q.c.uid); err != nil {
		return refused(control.Unavailable, err.Error())
	}
	f.event(journal.Event{Time: time.Now(), Event: eventActor, PID: owner.PID, Actor: q.r.Actor, Detail: map[string]any{
		"program": f.proc.Program(owner.PID), "uid": q.c.uid,
	}})
	return &control.Reply{OK: true}
}

// give labels a process until it ends; env is the label in its environment.
func (as *actors) give(o lockmgr.Owner, env, name string, uid uint32) error {
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
	dead, stop, err := as.f.proc.Watch(o)
	if err != nil {
		return err
	}
	if as.all == nil {
		as.all = map[lockmgr.Owner]*actor{}
	}
	as.all[o] = &actor{name: name, env: env, uid: uid}
	as.n.Add(1)
	go func() {
		defer stop()
		select {
		case <-dead:
			as.forget(o)
		case <-as.f.done:
		}
	}()
	return nil
}

func (as *actors) forget(o lockmgr.Owner) {
	as.mu.Lock()
	defer as.mu.Unlock()
	delete(as.all, o)
	as.n.Add(-1)
}

// of is the label of the nearest of a process and those above it that has one: of one
// that the process's own user has given, or root. env is the label in the process's
// environment, which counts where it was set below.
func (as *actors) of(c *caller, env string) string {
	if as.n.Load() == 0 || c.foreign() {
		return env
	}
	if name, found := as.at(c, c.owner, env); found {
		return name
	}
	for _, a := range c.ancestors() {
		if name, found := as.at(c, a.Owner, env); found {
			return name
		}
	}
	for _, o := range c.f.proc.Family(c.owner).Above { // of an orphan
		if name, found := as.at(c, o, env); found {
			return name
		}
	}
	return env
}

func (as *actors) at(c *caller, o lockmgr.Owner, env string) (name string, found bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.all[o]
	if a == nil || a.uid != c.uid && a.uid != 0 {
		return "", false
	}
	if env != "" && env != a.env {
		return env, true
	}
	return a.name, true
}

// actorInEnv is the label in the environment that a process was started with.
func (f *FS) actorInEnv(o lockmgr.Owner) string {
	if names := f.policy.ActorEnv(); len(names) > 0 {
		return f.proc.EnvOf(o, names)
	}
	return ""
}

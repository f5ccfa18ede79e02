package main

import (
	"errors"
	"fmt"

	"latchfs/fs/control"
	"latchfs/fs/printable"
)

// pins keeps the versions that are still to be put back. Each restore makes a new version of
// what it replaces; without pins those would push out the oldest ones, which the next restores
// need, where the history is near its bounds or the disk is full. They end with us.
type pins struct {
	talk *conversation // nil: nothing is to be put back
}

// pinAll pins what a plan puts back, before anything is changed. What cannot be is refused.
func pinAll(sys system, v *view, plan []*undoing) (*pins, error) {
	p := &pins{}
	for _, u := range plan {
		if !u.needsVersion() {
			continue
		}
		if p.talk == nil {
			talk, err := converseIn(sys, v)
			if err != nil {
				return nil, err
			}
			p.talk = talk
		}
		if err := p.pin(u); err != nil {
			p.end()
			return nil, err
		}
	}
	return p, nil
}

// needsVersion tells whether the history has what the file goes back to.
func (u *undoing) needsVersion() bool { return u.Action == undoRestore && u.target != nil }

func (p *pins) pin(u *undoing) error {
	a, err := p.ask(control.Pin, u)
	switch {
	case err != nil:
		return err
	case a.OK:
		return nil
	case a.Error == control.NotKept:
		u.refuse("%s", notKept(u.target))
		return nil
	case a.Error == control.Invalid:
		return errors.New("the mount is one of an earlier latchfs, which cannot keep the versions until they are put back: unmount it and mount it again")
	}
	return fmt.Errorf("version %d of %s cannot be kept until it is put back: %s", u.Version, printable.Line(u.path), said(a.Refusal))
}

// release lets what is put back go: on a full disk the next restore may need its space.
func (p *pins) release(u *undoing) {
	if p.talk != nil && u.needsVersion() {
		_, _ = p.ask(control.Unpin, u) // if it fails it stays until the end
	}
}

func (p *pins) ask(op string, u *undoing) (*answer, error) {
	return p.talk.ask(&control.Request{Op: op, Paths: []string{u.target.real()}, Version: uint64(u.target.Version)})
}

func (p *pins) end() {
	if p.talk != nil {
		p.talk.end()
	}
}

// Package environs remembers what was asked of the environments that programs were started
// with. It is pure: what is in an environment, and which program a process runs, its user
// has seen.
//
// Such an environment changes at execve(2) only. The process keeps its pid and start time
// over that, so an answer is remembered of an Image: of one of the programs that a process
// runs one after the other. With another image, or another process, it is forgotten.
//
// A Cache is of fixed size, and so is what it remembers of one program: a process has one
// slot, which another one may take. It may be used by several goroutines at once; it has
// atomic pointers, and no mutex.
package environs

import (
	"slices"
	"sync/atomic"

	"latchfs/lockmgr"
)

// Image tells the programs apart that a process runs one after the other. The addresses
// in its stat do not: without their randomization (setarch -R) a program that is started
// again with arguments and variables of the same length has the same ones.
type Image struct {
	// Told is the number that the kernel's telling of execve gives the program (see
	// package forks), 0 where the kernel does not tell.
	Told uint64
	// Faults are the page faults of the process so far, where it does not. A program that
	// has just been started has no page, and comes to its first instruction by a fault:
	// while the count is the same, no program was started. Faults of other reasons make us
	// read again.
	Faults uint64
}

const (
	// maxAnswers is how many different questions are remembered of one program.
	maxAnswers = 4
	// maxAnswer is how long an answer is that is remembered.
	maxAnswer = 256
)

// Cache remembers answers. The zero Cache remembers none.
type Cache [256]atomic.Pointer[program]

// program is what is remembered of one program. The value is immutable.
type program struct {
	o       lockmgr.Owner
	image   Image
	answers []answer // the latest first
}

type answer struct {
	names []string
	value string
}

func (c *Cache) slot(o lockmgr.Owner) *atomic.Pointer[program] {
	return &c[uint32(o.PID)%uint32(len(c))]
}

// Get returns the value that was put for the same variables of the same image of a
// process.
func (c *Cache) Get(o lockmgr.Owner, im Image, names []string) (value string, ok bool) {
	p := c.slot(o).Load()
	if p == nil || p.o != o || p.image != im {
		return "", false
	}
	for _, a := range p.answers {
		if slices.Equal(a.names, names) {
			return a.value, true
		}
	}
	return "", false
}

// Put remembers the value of the first of some variables, whose list it keeps. A long one
// is not remembered, and of two that come at the same moment one may be lost.
func (c *Cache) Put(o lockmgr.Owner, im Image, names []string, value string) {
	if len(value) > maxAnswer {
		return
	}
	next := &program{o: o, image: im, answers: []answer{{names, value}}}
	if p := c.slot(o).Load(); p != nil && p.o == o && p.image == im {
		next.answers = append(next.answers, p.answers[:min(len(p.answers), maxAnswers-1)]...)
	}
	c.slot(o).Store(next)
}

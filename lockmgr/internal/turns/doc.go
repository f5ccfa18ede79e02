// Package turns finds out, in a queue of waiters that depend on each other, whom a
// waiter needs before itself, or that nobody can go on. It is pure: who depends on whom
// its user says.
//
// A waiter that depends on another one cannot go on before that one does, so it has to
// stand behind it. Where this cannot be, the waiters depend on each other in a circle.
package turns

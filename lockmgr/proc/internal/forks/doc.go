// Package forks remembers which process has started which, also when those between the two
// have ended: /proc then names the process that adopts orphans as the parent. It also
// numbers the programs that processes run, and knows whose children are all its first
// thread's, so that nobody has to ask each thread for its own.
//
// The kernel tells of each fork, execve and end over its process events connector
// (NETLINK_CONNECTOR, CN_IDX_PROC), before the new process or program runs: whoever asks
// about a process that has made a request finds its birth, and its program, in the socket.
// It does not tell inside a container, nor before Linux 6.6 to an ordinary user. Of
// processes that were started before Follow, and of those that were started while events
// got lost, /proc names the parent.
//
// The socket is emptied when somebody asks, and otherwise some times a second while
// processes are being started, so that a busy machine does not wake the reader for
// each of them. What has ended is forgotten from time to time: what is kept grows with
// the processes that live, not with those that were started.
//
// A process is a pid here, that has it at the moment of the question; whether it is the
// one that is meant the caller has to see, by its start time.
//
// Mutex order: Table.mu is the only mutex. It is held while the socket is emptied and
// while /proc is read, of which only files that take no lock of a process; nothing else
// is called with it.
package forks

// Package suid does to a file's setuid and setgid bits and its file capabilities what a plain
// write by an ordinary user does, whoever writes the file in its place: the daemon, or a
// session whose shadow becomes the file (DESIGN §3, "Rules at the edges").
//
//	write by           setuid, setgid     the setgid bit without the      file capabilities
//	                   with execute       group's right to execute
//	CAP_FSETID         stay               stays                           stay
//	others             go                 goes, but for members of        go
//	                                      the file's group
//
// The bit in the middle is that of mandatory locking as it once was, which is no privilege.
// chown(2) takes the same from every file that is not a directory, whoever calls it, but for
// that bit, which stays.
//
// A Writing keeps what the shadow of a session does not tell of this. The package knows files
// by descriptor, O_PATH or not. Who has which capability, and is in which group, comes in. It
// has no mutex: a Writing belongs to its session, whose mutex guards it.
package suid

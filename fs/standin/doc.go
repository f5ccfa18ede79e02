// Package standin lets the shadow of a session show the attributes that its owner expects to
// see: those of the file that it stands for, as far as they differ from what fstat(2) says of
// the shadow.
//
//	links    an unnamed inode has none; the file has as many as it has
//	number   programs compare what they stat before the open with what they fstat after it,
//	         so that it is the file's. A new file has its own.
//	bits     setuid and setgid, which with passthrough each write takes off the shadow, are
//	         shown as long as the writes leave them to the file
//	times    those of the file, as long as nothing was written
//
// The package is pure: who looks and when comes in.
package standin

// Package disclosure decides who may know of which version of a file, and of which refused
// bytes, and shows the history to those.
//
// Root and the mount's owner know of everything. To others a version shows if all of this
// is so:
//
//	when it was kept   they could read it (Rights), and reach it: pass each gate on the way
//	now                they can reach its directory, and read the file at its path
//
// Where the file is gone the last one that the path held counts instead. Where that is not
// known any more, where a directory is gone, and where an ACL may have said something else
// than the mode, a version is its file's owner's. Refused bytes are their owner's, too.
//
// That a path holds no file any more knows who has brought it about, and, as long as it is
// so, whoever may know of the file that it held.
//
// A gate is a directory that not everybody may search. ReachOf notes those above a content
// when it is kept, for a directory may be opened later, when what was in it then is still
// nobody else's business. Whoever may know of a version does not learn by it from where a
// renamed file has come, nor what others call themselves.
//
// What a viewer can reach and read now package reach finds out, once for each look. The
// package has no state and no mutex.
package disclosure

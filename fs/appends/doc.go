// Package appends judges what is about to be appended to a file: the size that the file has
// then, and each line where the policy asks for that. A line that was begun by an earlier
// append is judged as a whole, when its end comes. A file may be cut off only where a line
// ends.
//
// The package reads the file through the descriptor that it is given, and changes nothing.
package appends

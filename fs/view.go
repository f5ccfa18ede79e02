package fs

// view has what .locks shows, for those parts that lie below it: the kernel forgets nodes of
// the virtual tree through them, and the recorders say that it has changed.
type view struct {
	source *source
	virt   *virtual
}

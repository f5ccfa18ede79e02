package fs

// view leads from the parts to what .locks shows, which is made of all of them: the kernel's
// requests about .locks go to virt, and source describes locks and refused bytes.
type view struct {
	source *source
	virt   *virtual
}

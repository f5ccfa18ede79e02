package content

// BeforeMeta is to be called before the shadow's metadata changes: a change of times would hide,
// or fake, a change of content, so that it is looked for now.
func (c *Copy) BeforeMeta() {
	if c.wrote || !c.filled {
		return
	}
	if dirty, err := c.shadow.Dirty(); err == nil && dirty {
		c.wrote = true
	}
}

// NoteMeta keeps a change of metadata that was made to the shadow.
func (c *Copy) NoteMeta(change func(fd int) error) { c.meta = append(c.meta, change) }

// AfterMeta is to be called after such a change, for which the shadow does not count as written.
func (c *Copy) AfterMeta() error {
	if c.wrote || !c.filled {
		return nil
	}
	return c.shadow.Mark()
}

// HasMeta reports whether there are changes of metadata.
func (c *Copy) HasMeta() bool { return len(c.meta) > 0 }

// ApplyMeta makes the changes of metadata, in their order, to the file that is open as fd, and
// forgets them if that succeeds. Of those that come after one that fails none is made.
func (c *Copy) ApplyMeta(fd int) error {
	for _, change := range c.meta {
		if err := change(fd); err != nil {
			return err
		}
	}
	c.meta = nil
	return nil
}

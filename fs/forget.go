package fs

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// erase removes the kept bytes that were meant for the file at path, as far as they are
// the requester's.
func (rj *rejects) erase(path string, mine func(uid uint32) bool) (entries int, bytes int64, err error) {
	dir, err := rj.open()
	if errors.Is(err, unix.ENOENT) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(dir)
	list, err := readEntries(dir, isRejectedID)
	if err != nil {
		return 0, 0, err
	}
	var ids []string
	for i := range list {
		id := list[i].name
		k, st, ok := rj.find(dir, id)
		if !ok || k.path != path || !mine(k.uid) {
			continue
		}
		ids, bytes = append(ids, id), bytes+st.Size
	}
	if len(ids) == 0 {
		return 0, 0, nil
	}
	slices.Sort(ids)
	return len(ids), bytes, rj.f.store.ForgetRejected(ids)
}

package main

import (
	"io/fs"
	"os"
	"path/filepath"

	"latchfs/integration/internal/wire"
)

func init() { handlers["readtree"] = readTree }

// readTree reads every regular file below Path: Names are their paths below it,
// and Data their contents, each ended by a zero byte. What disappears while it
// is being read is left out.
func readTree(_ *process, r wire.Request) (wire.Result, error) {
	var res wire.Result
	err := filepath.WalkDir(r.Path, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.Path, path)
		res.Names = append(res.Names, name)
		res.Data = append(append(res.Data, content...), 0)
		return err
	})
	return res, err
}

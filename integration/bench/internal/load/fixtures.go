package load

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The files every column starts with, relative to its root.
const (
	saveDir   = "save"   // files that are saved
	createDir = "create" // empty
	streamDir = "stream" // empty
	appendDir = "append" // empty
	untarDir  = "untar"  // empty
	lockDir   = "lock"   // files to wait for
	smallDir  = "small"  // smallFiles of pageSize
	manyDir   = "many"   // manyDirs with manyPerDir each
	listDir   = "list"   // listFiles, to be listed

	bigFile    = "big.bin"    // read only
	updateFile = "update.bin" // written in place

	smallFiles = 100
	manyDirs   = 20
	manyPerDir = 100
	listFiles  = 1000
	bigSize    = 64 * mib
	updateSize = 16 * mib

	archiveDirs   = 20
	archivePerDir = 100
)

// MakeFixtures fills a column's directory before anything is mounted on it.
func MakeFixtures(root string) error {
	for _, dir := range []string{saveDir, createDir, streamDir, appendDir, untarDir, lockDir} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	page := bytes.Repeat([]byte("s"), PageSize)
	files := map[string][]byte{
		filepath.Join(root, lockDir, "shared.json"): page,
		filepath.Join(root, lockDir, "data.json"):   page,
		filepath.Join(root, bigFile):                bytes.Repeat([]byte("b"), bigSize),
	}
	for _, path := range smallPaths(root) {
		files[path] = page
	}
	for _, path := range manyPaths(root) {
		files[path] = []byte("one of many\n")
	}
	for i := range listFiles {
		files[filepath.Join(root, listDir, fmt.Sprintf("entry-%04d.txt", i))] = nil
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return writeInBlocks(filepath.Join(root, updateFile), updateSize)
}

// writeInBlocks writes a file page by page. What is written in one go is cached
// in large folios, and ext4 walks all of a folio's blocks at each small write
// into it: a cost of the cache's history, ten times that of the write itself.
func writeInBlocks(path string, size int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	page := bytes.Repeat([]byte("u"), PageSize)
	for range size / PageSize {
		if _, err = f.Write(page); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

func smallPaths(root string) []string {
	paths := make([]string, smallFiles)
	for i := range paths {
		paths[i] = filepath.Join(root, smallDir, fmt.Sprintf("file-%03d.txt", i))
	}
	return paths
}

func manyPaths(root string) []string {
	paths := make([]string, 0, manyDirs*manyPerDir)
	for d := range manyDirs {
		for f := range manyPerDir {
			paths = append(paths, filepath.Join(root, manyDir, fmt.Sprintf("dir-%02d", d), fmt.Sprintf("file-%03d.txt", f)))
		}
	}
	return paths
}

// MakeArchive writes the tar file of the untar work.
func MakeArchive(path string) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	page := bytes.Repeat([]byte("t"), PageSize)
	for d := range archiveDirs {
		dir := fmt.Sprintf("dir-%02d/", d)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
		for f := range archivePerDir {
			h := &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("%sfile-%03d.txt", dir, f), Mode: 0o644, Size: PageSize}
			if err := w.WriteHeader(h); err != nil {
				return err
			}
			if _, err := w.Write(page); err != nil {
				return err
			}
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

package history

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"latchfs/journal"
)

// encode is the record as encoding/json would write it: each version that is entered
// writes at least one.
func (r *record) encode() []byte { return r.appendTo(nil) }

// appendTo is encode into a buffer.
func (r *record) appendTo(b []byte) []byte {
	w := fieldWriter(journal.AppendJSONString(append(b, `{"op":`...), r.Op))
	w.raw(`,"path":`, string(r.Path))
	if r.To != nil {
		w.raw(`,"to":`, string(*r.To))
	}
	if r.From != nil {
		w.raw(`,"from":`, string(*r.From))
	}
	w.uint(`,"version":`, r.Number)
	w.int(`,"time":`, r.Time)
	w.uint(`,"base":`, r.Base)
	w.text(`,"event":`, string(r.Event))
	w.text(`,"operation":`, r.Operation)
	w.text(`,"actor":`, r.Actor)
	w.text(`,"program":`, r.Program)
	w.text(`,"session":`, r.Session)
	w.int(`,"pid":`, int64(r.PID))
	w.uint(`,"uid":`, uint64(r.UID))
	w.uint(`,"token":`, r.Token)
	w.text(`,"content":`, r.Content)
	w.uint(`,"ino":`, r.Ino)
	w.int(`,"bytes":`, r.Size)
	w.int(`,"mtime":`, r.Mtime)
	w.bool(`,"loose":`, r.Loose)
	w.uint(`,"file_uid":`, uint64(r.FileUID))
	w.uint(`,"file_gid":`, uint64(r.FileGID))
	w.uint(`,"mode":`, uint64(r.Mode))
	w.bool(`,"acl":`, r.ACL)
	w.triples(`,"dirs":`, r.Dirs)
	return append(w, '}')
}

// fieldWriter appends fields, whose names stand before them. Those that are zero are left
// out, but for raw ones.
type fieldWriter []byte

func (w *fieldWriter) raw(name, s string) {
	b := append(*w, name...)
	if utf8.ValidString(s) {
		*w = journal.AppendJSONString(b, s)
		return
	}
	b = base64.StdEncoding.AppendEncode(append(b, `["`...), []byte(s))
	*w = append(b, `"]`...)
}

func (w *fieldWriter) text(name, s string) {
	if s != "" {
		*w = journal.AppendJSONString(append(*w, name...), s)
	}
}

func (w *fieldWriter) uint(name string, n uint64) {
	if n != 0 {
		*w = strconv.AppendUint(append(*w, name...), n, 10)
	}
}

func (w *fieldWriter) int(name string, n int64) {
	if n != 0 {
		*w = strconv.AppendInt(append(*w, name...), n, 10)
	}
}

func (w *fieldWriter) bool(name string, is bool) {
	if is {
		*w = append(append(*w, name...), "true"...)
	}
}

func (w *fieldWriter) triples(name string, list [][3]uint32) {
	if len(list) == 0 {
		return
	}
	b := append(*w, name...)
	for i, one := range list {
		b = append(b, "[,"[min(i, 1)])
		for j, n := range one {
			b = strconv.AppendUint(append(b, "[,"[min(j, 1)]), uint64(n), 10)
		}
		b = append(b, ']')
	}
	*w = append(b, ']')
}

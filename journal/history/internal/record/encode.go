package record

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"latchfs/journal/internal/jsontext"
)

// Encode is the record as encoding/json would write it: each version that is entered
// writes at least one.
func (r *Record) Encode() []byte { return r.AppendTo(nil) }

// AppendTo is Encode, behind what a buffer holds.
func (r *Record) AppendTo(b []byte) []byte {
	w := jsontext.Fields(jsontext.AppendString(append(b, `{"op":`...), r.Op))
	w = appendRaw(append(w, `,"path":`...), string(r.Path))
	if r.To != nil {
		w = appendRaw(append(w, `,"to":`...), string(*r.To))
	}
	if r.From != nil {
		w = appendRaw(append(w, `,"from":`...), string(*r.From))
	}
	w.Uint(`,"version":`, r.Number)
	w.Int(`,"time":`, r.Time)
	w.Uint(`,"base":`, r.Base)
	w.Text(`,"event":`, r.Event)
	w.Text(`,"operation":`, r.Operation)
	w.Text(`,"actor":`, r.Actor)
	w.Text(`,"program":`, r.Program)
	w.Text(`,"session":`, r.Session)
	w.Int(`,"pid":`, int64(r.PID))
	w.Uint(`,"uid":`, uint64(r.UID))
	w.Uint(`,"token":`, r.Token)
	w.Text(`,"content":`, r.Content)
	w.Uint(`,"ino":`, r.Ino)
	w.Int(`,"bytes":`, r.Size)
	w.Int(`,"mtime":`, r.Mtime)
	w.Bool(`,"loose":`, r.Loose)
	w.Uint(`,"file_uid":`, uint64(r.FileUID))
	w.Uint(`,"file_gid":`, uint64(r.FileGID))
	w.Uint(`,"mode":`, uint64(r.Mode))
	w.Bool(`,"acl":`, r.ACL)
	if len(r.Dirs) > 0 {
		w = appendTriples(append(w, `,"dirs":`...), r.Dirs)
	}
	return append(w, '}')
}

// appendRaw appends a name, which may be any bytes.
func appendRaw(b []byte, s string) []byte {
	if utf8.ValidString(s) {
		return jsontext.AppendString(b, s)
	}
	b = base64.StdEncoding.AppendEncode(append(b, `["`...), []byte(s))
	return append(b, `"]`...)
}

// appendTriples appends a list that is not empty.
func appendTriples(b []byte, list [][3]uint32) []byte {
	for i, one := range list {
		b = append(b, "[,"[min(i, 1)])
		for j, n := range one {
			b = strconv.AppendUint(append(b, "[,"[min(j, 1)]), uint64(n), 10)
		}
		b = append(b, ']')
	}
	return append(b, ']')
}

package journal

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"latchfs/journal/internal/jsontext"
)

// appendTo appends the record as encoding/json would write it, but for one of what is
// appended to a file: that says its numbers even if they are 0.
func (r *record) appendTo(b []byte) []byte {
	if r.Op == "append" {
		return r.appendAppend(b)
	}
	w := jsontext.Fields(jsontext.AppendString(append(b, `{"op":`...), r.Op))
	w.Uint(`,"id":`, r.ID)
	if r.Intent != nil {
		w = r.Intent.appendTo(append(w, `,"intent":`...))
	}
	w.Uint(`,"next":`, r.Next)
	w.Uint(`,"tokens":`, r.Tokens)
	w.Bool(`,"clean":`, r.Clean)
	w.Int(`,"carried":`, int64(r.Carried))
	w.Int(`,"at":`, r.At)
	w.Int(`,"len":`, r.Len)
	w.Uint(`,"crc":`, uint64(r.CRC))
	return append(w, '}')
}

func (r *record) appendAppend(b []byte) []byte {
	b = strconv.AppendUint(append(b, `{"op":"append","id":`...), r.ID, 10)
	b = strconv.AppendInt(append(b, `,"at":`...), r.At, 10)
	b = strconv.AppendInt(append(b, `,"len":`...), r.Len, 10)
	return append(strconv.AppendUint(append(b, `,"crc":`...), uint64(r.CRC), 10), '}')
}

func (x *intentJSON) appendTo(b []byte) []byte {
	w := jsontext.Fields(jsontext.AppendString(append(b, `{"kind":`...), x.Kind))
	w.Uint(`,"token":`, x.Token)
	w.Uint(`,"txn":`, x.Txn)
	w = appendText(append(w, `,"dir":`...), x.Dir)
	w = appendText(append(w, `,"name":`...), x.Name)
	if x.ShadowDir != nil {
		w = appendText(append(w, `,"shadow_dir":`...), *x.ShadowDir)
	}
	w.Bool(`,"in_state":`, x.InState)
	w = appendText(append(w, `,"shadow":`...), x.Shadow)
	w.Uint(`,"shadow_ino":`, x.ShadowIno)
	w.Bool(`,"synced":`, x.Synced)
	w.Bool(`,"appears":`, x.Appears)
	w.Uint(`,"target_dev":`, x.TargetDev)
	w.Uint(`,"target_ino":`, x.TargetIno)
	w.Int(`,"target_birth":`, x.TargetBirth)
	w.Int(`,"size":`, x.Size)
	w.Text(`,"epoch":`, x.Epoch)
	w.Bool(`,"meta":`, x.Meta)
	w.Int(`,"mode":`, x.Mode)
	w.Int(`,"uid":`, x.UID)
	w.Int(`,"gid":`, x.GID)
	w.Text(`,"keep":`, x.Keep)
	w.Text(`,"sums":`, base64.StdEncoding.EncodeToString(x.Sums))
	return append(w, '}')
}

// appendText appends a string of arbitrary bytes.
func appendText(b []byte, s text) []byte {
	if utf8.ValidString(string(s)) {
		return jsontext.AppendString(b, string(s))
	}
	b = base64.StdEncoding.AppendEncode(append(b, `{"b64":"`...), []byte(s))
	return append(b, `"}`...)
}

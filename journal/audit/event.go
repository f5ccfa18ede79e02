package audit

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"latchfs/journal/internal/jsontext"
)

// Event is one entry of the audit trail.
type Event struct {
	Time    time.Time // zero: now
	Event   string    // what happened: commit, rollback, refusal, recovery, ...
	Path    string    // relative to the data root; "" if it concerns no file
	Session string
	Actor   string
	PID     int32
	Token   uint64         // fencing token
	Detail  map[string]any // further keys of the line; the names above win
}

// The keys of an event's own fields, in the order in which a line has them.
const (
	keyActor      = "actor"
	keyEvent      = "event"
	keyPath       = "path"
	keyPathBase64 = "path_base64"
	keyPID        = "pid"
	keySession    = "session"
	keyTimestamp  = "timestamp"
	keyToken      = "token"

	keyUID = "uid" // of Detail: the user who did it
)

// ownKeys are these keys; the last is the greatest.
var ownKeys = [...]string{keyActor, keyEvent, keyPath, keyPathBase64, keyPID, keySession, keyTimestamp, keyToken}

// MarshalJSON renders e as one flat object: timestamp (RFC 3339, UTC), event,
// the fields that are set, and the keys of Detail beside them. A path that is
// not valid UTF-8 stands in path_base64 as well.
func (e Event) MarshalJSON() ([]byte, error) { return e.appendTo(nil) }

// appendTo is MarshalJSON into a buffer. The keys are in order, as encoding/json writes
// those of a map.
func (e *Event) appendTo(b []byte) ([]byte, error) {
	var room [24]string
	keys := room[:0]
	for key := range e.Detail {
		if !e.has(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	own := 0
	start := len(b)
	next := func(key string) {
		b = append(b, "{,"[min(len(b)-start, 1)])
		b = append(jsontext.AppendString(b, key), ':')
	}
	appendOwn := func(before string, all bool) {
		for ; own < len(ownKeys) && (all || ownKeys[own] < before); own++ {
			if e.has(ownKeys[own]) {
				next(ownKeys[own])
				b = e.appendOwn(b, ownKeys[own])
			}
		}
	}
	var err error
	for _, key := range keys {
		appendOwn(key, false)
		next(key)
		if b, err = appendValue(b, e.Detail[key]); err != nil {
			return nil, err
		}
	}
	appendOwn("", true)
	return append(b, '}'), nil
}

// has reports whether a key stands for a field of e that is set.
func (e *Event) has(key string) bool {
	switch key {
	case keyTimestamp, keyEvent:
		return true
	case keyPath:
		return e.Path != ""
	case keyPathBase64:
		return !utf8.ValidString(e.Path)
	case keySession:
		return e.Session != ""
	case keyActor:
		return e.Actor != ""
	case keyPID:
		return e.PID != 0
	case keyToken:
		return e.Token != 0
	}
	return false
}

func (e *Event) appendOwn(b []byte, key string) []byte {
	switch key {
	case keyTimestamp:
		b = e.Time.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano)
		return append(b, '"')
	case keyEvent:
		return jsontext.AppendString(b, e.Event)
	case keyPath:
		return jsontext.AppendString(b, e.Path)
	case keyPathBase64:
		b = base64.StdEncoding.AppendEncode(append(b, '"'), []byte(e.Path))
		return append(b, '"')
	case keySession:
		return jsontext.AppendString(b, e.Session)
	case keyActor:
		return jsontext.AppendString(b, e.Actor)
	case keyPID:
		return strconv.AppendInt(b, int64(e.PID), 10)
	default:
		return strconv.AppendUint(b, e.Token, 10)
	}
}

// appendValue appends what a key of Detail has; what is not of the usual types is a matter
// for package json.
func appendValue(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return jsontext.AppendString(b, v), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int32:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case uint32:
		return strconv.AppendUint(b, uint64(v), 10), nil
	case uint64:
		return strconv.AppendUint(b, v, 10), nil
	}
	text, err := json.Marshal(value)
	return append(b, text...), err
}

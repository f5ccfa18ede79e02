package record

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Parse reads a record that has the form which Encode gives nearly all of them, and
// reports whether it could: any other is a matter for package json. A start reads every
// record that there is.
func Parse(b []byte, r *Record) bool {
	p := parser{text: string(b)}
	if !p.take('{') {
		return false
	}
	for next := 0; ; {
		name, ok := p.quoted()
		if !ok || !p.take(':') {
			return false
		}
		for next < len(fields) && fields[next].name != name {
			next++
		}
		if next == len(fields) || !p.value(fields[next].of(r)) {
			return false
		}
		next++
		if p.take('}') {
			return p.text == ""
		}
		if !p.take(',') {
			return false
		}
	}
}

// fields are those of a record, in the order in which Encode writes them.
var fields = [...]struct {
	name string
	of   func(*Record) any
}{
	{"op", func(r *Record) any { return &r.Op }},
	{"path", func(r *Record) any { return &r.Path }},
	{"to", func(r *Record) any { return &r.To }},
	{"from", func(r *Record) any { return &r.From }},
	{"version", func(r *Record) any { return &r.Number }},
	{"time", func(r *Record) any { return &r.Time }},
	{"base", func(r *Record) any { return &r.Base }},
	{"event", func(r *Record) any { return &r.Event }},
	{"operation", func(r *Record) any { return &r.Operation }},
	{"actor", func(r *Record) any { return &r.Actor }},
	{"program", func(r *Record) any { return &r.Program }},
	{"session", func(r *Record) any { return &r.Session }},
	{"pid", func(r *Record) any { return &r.PID }},
	{"uid", func(r *Record) any { return &r.UID }},
	{"token", func(r *Record) any { return &r.Token }},
	{"content", func(r *Record) any { return &r.Content }},
	{"ino", func(r *Record) any { return &r.Ino }},
	{"bytes", func(r *Record) any { return &r.Size }},
	{"mtime", func(r *Record) any { return &r.Mtime }},
	{"loose", func(r *Record) any { return &r.Loose }},
	{"file_uid", func(r *Record) any { return &r.FileUID }},
	{"file_gid", func(r *Record) any { return &r.FileGID }},
	{"mode", func(r *Record) any { return &r.Mode }},
	{"acl", func(r *Record) any { return &r.ACL }},
	{"dirs", func(r *Record) any { return &r.Dirs }},
}

// parser is what is left of the text of a record.
type parser struct{ text string }

func (p *parser) take(c byte) bool {
	if p.text == "" || p.text[0] != c {
		return false
	}
	p.text = p.text[1:]
	return true
}

// quoted reads a string in which nothing is escaped.
func (p *parser) quoted() (s string, ok bool) {
	if !p.take('"') {
		return "", false
	}
	i := strings.IndexByte(p.text, '"')
	if i < 0 {
		return "", false
	}
	s, p.text = p.text[:i], p.text[i+1:]
	plain := true
	for j := range len(s) {
		switch {
		case s[j] < ' ' || s[j] == '\\':
			return "", false
		case s[j] >= utf8.RuneSelf:
			plain = false
		}
	}
	return s, plain || utf8.ValidString(s)
}

// number reads a whole number of at most most, without a sign.
func (p *parser) number(most uint64) (n uint64, ok bool) {
	i := 0
	for i < len(p.text) && p.text[i] >= '0' && p.text[i] <= '9' {
		d := uint64(p.text[i] - '0')
		if n > most/10 || 10*n > most-d || i > 0 && n == 0 {
			return 0, false
		}
		n = 10*n + d
		i++
	}
	p.text = p.text[i:]
	return n, i > 0
}

// signed reads a whole number whose magnitude is at most most.
func (p *parser) signed(most uint64) (n int64, ok bool) {
	minus := p.take('-')
	u, ok := p.number(most)
	if minus {
		return -int64(u), ok && u != 0
	}
	return int64(u), ok
}

// value reads a value of the type of what to points to.
func (p *parser) value(to any) (ok bool) {
	var s string
	var n int64
	var u uint64
	switch to := to.(type) {
	case *string:
		*to, ok = p.quoted()
	case *Name:
		s, ok = p.quoted()
		*to = Name(s)
	case **Name:
		s, ok = p.quoted()
		*to = (*Name)(&s)
	case *uint64:
		*to, ok = p.number(math.MaxUint64)
	case *int64:
		*to, ok = p.signed(math.MaxInt64)
	case *int32:
		n, ok = p.signed(math.MaxInt32)
		*to = int32(n)
	case *uint32:
		u, ok = p.number(math.MaxUint32)
		*to = uint32(u)
	case *bool:
		p.text, ok = strings.CutPrefix(p.text, "true")
		*to = ok
	case *[][3]uint32:
		*to, ok = p.triples()
	}
	return ok
}

// triples reads a list of lists of three numbers.
func (p *parser) triples() (list [][3]uint32, ok bool) {
	if !p.take('[') {
		return nil, false
	}
	for {
		var one [3]uint32
		for i := range one {
			n, ok := uint64(0), p.take("[,,"[i])
			if ok {
				n, ok = p.number(math.MaxUint32)
			}
			if !ok {
				return nil, false
			}
			one[i] = uint32(n)
		}
		list = append(list, one)
		if !p.take(']') {
			return nil, false
		}
		if p.take(']') {
			return list, true
		}
		if !p.take(',') {
			return nil, false
		}
	}
}

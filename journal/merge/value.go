package merge

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds of a JSON value.
const (
	maxValues = maxItems // in each content
	maxDepth  = 1000
)

// node is a JSON value as it is written.
type node struct {
	kind byte // '{', '[', '"', '0' for numbers, 't', 'f', 'n', or ' ' for a blank line
	// id is the same for all values that mean the same.
	id token
	// raw is the value as it is written. It is nil in containers that were merged,
	// which are written from their members.
	raw     []byte
	members []member // of an object or an array
	end     []byte   // the white space after the last member
}

// member is a value in its container.
type member struct {
	lead  []byte // the white space before it
	key   string // in an object: what it says, and how it is written, with the colon
	label []byte
	value *node
	tail  []byte // the white space between it and the comma
}

func (n *node) isContainer() bool { return n != nil && (n.kind == '{' || n.kind == '[') }

// values gives equal ids to equal values.
type values map[string]token

func (v values) id(canonical string) token {
	t, ok := v[canonical]
	if !ok {
		t = token(len(v))
		v[canonical] = t
	}
	return t
}

// parse reads the one JSON value of content, and the white space around it.
func parse(content []byte, ids values) (lead []byte, root *node, trail []byte, err error) {
	if err := json.Unmarshal(content, new(json.RawMessage)); err != nil {
		c := &Conflict{Reason: "this is not valid JSON"}
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			c.Line = 1 + bytes.Count(content[:max(min(int(syntax.Offset), len(content))-1, 0)], newline)
		}
		return nil, nil, nil, c
	}
	p := parser{rest: content, ids: ids}
	lead = p.space()
	root, problem := p.value(0)
	if problem != "" {
		line := 1 + bytes.Count(content[:len(content)-len(p.rest)], newline)
		return nil, nil, nil, &Conflict{Line: line, Reason: problem}
	}
	return lead, root, p.rest, nil
}

// parser takes apart what is known to be valid JSON.
type parser struct {
	rest  []byte
	ids   values
	count int
}

func (p *parser) space() []byte {
	n := 0
	for n < len(p.rest) && strings.IndexByte(" \t\r\n", p.rest[n]) >= 0 {
		n++
	}
	return p.take(n)
}

func (p *parser) take(n int) []byte {
	taken := p.rest[:n:n]
	p.rest = p.rest[n:]
	return taken
}

func (p *parser) value(depth int) (n *node, problem string) {
	if p.count++; p.count > maxValues || depth > maxDepth {
		return nil, tooLarge
	}
	all := p.rest
	n = &node{kind: p.rest[0]}
	switch n.kind {
	case '{', '[':
		if problem := p.members(n, depth); problem != "" {
			return nil, problem
		}
	case '"':
		n.id = p.ids.id(`"` + unquote(p.quoted()))
	default:
		word := p.take(len(p.rest) - len(bytes.TrimLeft(p.rest, "+-.0123456789abcdefghijklmnopqrstuvwxyzE")))
		if n.kind == '-' || n.kind <= '9' {
			n.kind = '0'
		}
		n.id = p.ids.id(number(string(word)))
	}
	n.raw = all[:len(all)-len(p.rest)]
	return n, ""
}

// members reads what is in an object or an array.
func (p *parser) members(n *node, depth int) (problem string) {
	p.take(1)
	seen := make(map[string]bool)
	for {
		m := member{lead: p.space()}
		if p.rest[0] == '}' || p.rest[0] == ']' {
			n.end = m.lead
			break
		}
		if n.kind == '{' {
			m.label, m.key = p.label()
			if seen[m.key] {
				return "a key is there twice"
			}
			seen[m.key] = true
		}
		if m.value, problem = p.value(depth + 1); problem != "" {
			return problem
		}
		m.tail = p.space()
		n.members = append(n.members, m)
		if p.rest[0] != ',' {
			last := &n.members[len(n.members)-1]
			n.end, last.tail = last.tail, nil
			break
		}
		p.take(1)
	}
	p.take(1)
	n.id = p.ids.id(canonical(n, p.ids))
	return ""
}

// label reads a key up to its value.
func (p *parser) label() (label []byte, key string) {
	all := p.rest
	key = unquote(p.quoted())
	p.space()
	p.take(1)
	p.space()
	return all[:len(all)-len(p.rest)], key
}

// quoted reads a string.
func (p *parser) quoted() []byte {
	n := 1
	for ; p.rest[n] != '"'; n++ {
		if p.rest[n] == '\\' {
			n++
		}
	}
	return p.take(n + 1)
}

// canonical is the same for containers with the same content. The order of keys
// does not count.
func canonical(n *node, ids values) string {
	if n.kind == '[' {
		b := []byte{'['}
		for i := range n.members {
			b = binary.LittleEndian.AppendUint32(b, uint32(n.members[i].value.id))
		}
		return string(b)
	}
	pairs := make([][2]token, len(n.members))
	for i, m := range n.members {
		pairs[i] = [2]token{ids.id(`"` + m.key), m.value.id}
	}
	slices.SortFunc(pairs, func(a, b [2]token) int { return int(a[0]) - int(b[0]) })
	b := []byte{'{'}
	for _, pair := range pairs {
		b = binary.LittleEndian.AppendUint32(b, uint32(pair[0]))
		b = binary.LittleEndian.AppendUint32(b, uint32(pair[1]))
	}
	return string(b)
}

// unquote is what a JSON string says. Unlike in encoding/json, half of a surrogate
// pair stays what it is, in the bytes that UTF-8 would have for it, so that
// different strings stay different.
func unquote(raw []byte) string {
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var b []byte
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			b = append(b, raw[i])
			continue
		}
		i++
		if raw[i] != 'u' {
			b = append(b, escapes[raw[i]])
			continue
		}
		r := hex(raw[i+1:])
		i += 4
		if r>>10 == 0xd800>>10 && i+6 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
			if low := hex(raw[i+3:]); low>>10 == 0xdc00>>10 {
				r = (r-0xd800)<<10 + low - 0xdc00 + 0x10000
				i += 6
			}
		}
		if utf8.ValidRune(r) {
			b = utf8.AppendRune(b, r)
		} else {
			b = append(b, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
		}
	}
	return string(b)
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func hex(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n)
}

// number is the same for all spellings of a number: its digits, and the power of
// ten that they are multiplied with. Words are what they are.
func number(word string) string {
	mantissa, power, _ := strings.Cut(strings.ToLower(word), "e")
	exponent, err := strconv.ParseInt(strings.TrimPrefix(power, "+"), 10, 32)
	if power != "" && err != nil || word[0] != '-' && (word[0] < '0' || word[0] > '9') {
		return word
	}
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= int64(len(fraction))
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return sign + "0"
	}
	short := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(short))
	return sign + short + "e" + strconv.FormatInt(exponent, 10)
}

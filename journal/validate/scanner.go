package validate

// scanner is the grammar of RFC 8259 as a pushdown automaton over bytes. It
// remembers which arrays and objects are open, and nothing of what is in them.
// The zero value expects one value.
type scanner struct {
	state state
	open  []byte // '[' or '{', the innermost last
	isKey bool   // the string that is being read is a key
	word  string // what is left of true, false or null
	hex   int    // how many digits of \uXXXX are still to come
}

type state uint8

const (
	wantValue     state = iota
	wantFirstItem       // after '[': a value or ']'
	wantFirstKey        // after '{': a key or '}'
	wantKey             // after ',' in an object
	wantColon           // after a key
	wantNext            // after a value in an array or object
	wantEnd             // after the outermost value
	inString            //
	inEscape            // after '\'
	inHex               // in \uXXXX
	inWord              // in true, false or null
	afterMinus          // a digit must come
	afterZero           // no digit may come
	inInteger           //
	afterPoint          // a digit must come
	inFraction          //
	afterE              // a digit or a sign must come
	afterSign           // a digit must come
	inExponent          //
)

const expectsValue = "a value is expected here"

// blank reports whether there was nothing but white space so far.
func (s *scanner) blank() bool { return s.state == wantValue && len(s.open) == 0 }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// step takes the next byte, and says what is wrong with it; "" if nothing is. Of
// a character of several bytes the first stands for all: they are allowed in
// strings alone.
func (s *scanner) step(c byte) (problem string) {
	switch s.state {
	case inString, inEscape, inHex:
		return s.stepString(c)
	case inWord:
		if c != s.word[0] {
			return expectsValue + ": true, false or null"
		}
		if s.word = s.word[1:]; s.word == "" {
			s.endValue()
		}
		return ""
	case afterMinus, afterZero, inInteger, afterPoint, inFraction, afterE, afterSign, inExponent:
		again, problem := s.stepNumber(c)
		if !again {
			return problem
		}
		s.endValue() // the number ended before c
	}
	if isSpace(c) {
		return ""
	}
	return s.stepStructure(c)
}

// stepStructure takes a byte that stands between values, or begins one.
func (s *scanner) stepStructure(c byte) string {
	switch s.state {
	case wantFirstItem:
		if c == ']' {
			return s.pop()
		}
		return s.beginValue(c)
	case wantValue:
		return s.beginValue(c)
	case wantFirstKey, wantKey:
		switch {
		case c == '"':
			s.state, s.isKey = inString, true
			return ""
		case c == '}' && s.state == wantFirstKey:
			return s.pop()
		}
		return "a key in double quotes is expected here"
	case wantColon:
		if c != ':' {
			return "':' is expected after a key"
		}
		s.state = wantValue
		return ""
	case wantNext:
		return s.stepNext(c)
	}
	return "there is more after the value"
}

// stepNext takes what follows a value in an array or object.
func (s *scanner) stepNext(c byte) string {
	array := s.open[len(s.open)-1] == '['
	switch {
	case c == ',' && array:
		s.state = wantValue
	case c == ',':
		s.state = wantKey
	case c == ']' && array, c == '}' && !array:
		return s.pop()
	case array:
		return "',' or ']' is expected here"
	default:
		return "',' or '}' is expected here"
	}
	return ""
}

func (s *scanner) beginValue(c byte) string {
	switch c {
	case '[':
		return s.push(c, wantFirstItem)
	case '{':
		return s.push(c, wantFirstKey)
	case '"':
		s.state, s.isKey = inString, false
	case 't':
		s.state, s.word = inWord, "true"[1:]
	case 'f':
		s.state, s.word = inWord, "false"[1:]
	case 'n':
		s.state, s.word = inWord, "null"[1:]
	case '-':
		s.state = afterMinus
	case '0':
		s.state = afterZero
	default:
		if !isDigit(c) {
			return expectsValue
		}
		s.state = inInteger
	}
	return ""
}

func (s *scanner) push(c byte, next state) string {
	if len(s.open) >= maxDepth {
		return "arrays and objects are nested too deep"
	}
	s.open, s.state = append(s.open, c), next
	return ""
}

func (s *scanner) pop() string {
	s.open = s.open[:len(s.open)-1]
	s.endValue()
	return ""
}

func (s *scanner) endValue() {
	s.state = wantNext
	if len(s.open) == 0 {
		s.state = wantEnd
	}
}

func (s *scanner) stepString(c byte) string {
	switch s.state {
	case inEscape:
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			s.state = inString
		case 'u':
			s.state, s.hex = inHex, 4
		default:
			return "there is no such escape in a string"
		}
		return ""
	case inHex:
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return "four hexadecimal digits are expected after \\u"
		}
		if s.hex--; s.hex == 0 {
			s.state = inString
		}
		return ""
	}
	switch {
	case c == '"' && s.isKey:
		s.state = wantColon
	case c == '"':
		s.endValue()
	case c == '\\':
		s.state = inEscape
	case c == '\n':
		return "the line ends inside a string"
	case c < ' ':
		return "there is a control character in a string"
	}
	return ""
}

// stepNumber takes a byte inside or right after a number; again: it is no part
// of it.
func (s *scanner) stepNumber(c byte) (again bool, problem string) {
	digit := isDigit(c)
	switch {
	case s.state == afterMinus && c == '0':
		s.state = afterZero
	case s.state == afterMinus && digit:
		s.state = inInteger
	case s.state == afterZero && digit:
		return false, "a number does not begin with 0"
	case s.state == afterPoint && digit:
		s.state = inFraction
	case (s.state == afterE || s.state == afterSign) && digit:
		s.state = inExponent
	case s.state == afterE && (c == '+' || c == '-'):
		s.state = afterSign
	case !s.numberDone():
		return false, "a digit is expected here"
	case digit:
	case c == '.' && (s.state == afterZero || s.state == inInteger):
		s.state = afterPoint
	case c|0x20 == 'e' && s.state != inExponent:
		s.state = afterE
	default:
		return true, ""
	}
	return false, ""
}

// numberDone reports whether the number might end here.
func (s *scanner) numberDone() bool {
	return s.state == afterZero || s.state == inInteger || s.state == inFraction || s.state == inExponent
}

// finish is the end of the content, and says inside what it is; "" if the value
// is complete.
func (s *scanner) finish() string {
	if len(s.open) == 0 && (s.state == wantEnd || s.numberDone()) {
		return ""
	}
	switch s.state {
	case inString, inEscape, inHex:
		return "inside a string"
	case inWord, wantValue:
		return "where a value is expected"
	case afterMinus, afterPoint, afterE, afterSign:
		return "inside a number"
	}
	if s.open[len(s.open)-1] == '[' {
		return "inside an array"
	}
	return "inside an object"
}

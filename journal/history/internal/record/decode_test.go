package record

import "testing"

// What a record has to say depends on its operation, and nothing unknown is read.
func TestDecodeRefuses(t *testing.T) {
	const id = `"content":"000102030405060708090a0b0c0d0e0f"`
	for text, good := range map[string]bool{
		`{"op":"version","path":"f","version":1,"event":"commit",` + id + `}`:       true,
		`{"op":"version","path":"f","version":1,"event":"delete"}`:                  true,
		`{"event":"delete", "op":"version","version":1,"path":["Zv8="]}`:            true, // as another program may write it
		`{"op":"state","path":"f","ino":1,"bytes":0}`:                               true,
		`{"op":"reach","path":"",` + id + `,"dirs":[[1,2,448]]}`:                    true,
		`{"op":"move","path":"a","to":"b"}`:                                         true,
		`{"op":"forget","path":"a"}`:                                                true,
		`{"op":"version","path":"f","version":1,"event":"commit"}`:                  false, // of no content
		`{"op":"version","path":"f","version":1,"event":"commit","content":"00"}`:   false,
		`{"op":"version","path":"f","version":1,"event":"delete",` + id + `}`:       false,
		`{"op":"version","path":"f","event":"delete"}`:                              false, // version 0
		`{"op":"version","path":"f","version":1,"event":"mend"}`:                    false,
		`{"op":"state","path":"f","content":"00"}`:                                  false,
		`{"op":"reach","path":"","dirs":[[1,2,448]]}`:                               false,
		`{"op":"move","path":"a"}`:                                                  false,
		`{"op":"exchange","path":"","to":"b"}`:                                      false,
		`{"op":"mend","path":"a"}`:                                                  false,
		`{"op":"forget","path":"a","more":1}`:                                       false,
		`{"op":"forget","path":"a"}{}`:                                              false,
		`{"op":"version","path":"f","version":-1,"event":"delete"}`:                 false,
		`{"op":"version","path":"f","version":1,"event":"delete","pid":3000000000}`: false,
		`{"op":"forget","path":"a`:                                                  false,
		``:                                                                          false,
	} {
		if _, err := Decode([]byte(text)); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

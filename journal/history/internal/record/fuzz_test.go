package record

import (
	"reflect"
	"testing"
)

func FuzzRecord(f *testing.F) {
	r := Record{Op: OpVersion, Path: "a/\xff", Number: 3, Event: EventCommit, Content: "000102030405060708090a0b0c0d0e0f", From: Optional("b")}
	f.Add(r.Encode())
	f.Add([]byte(`{"op":"move","path":"a","to":"b"}`))
	f.Add([]byte(`{"op":"state","path":"a","ino":1,"loose":true}`))
	f.Add([]byte(`{"op":"forget","path":["/w=="]}`))
	f.Add([]byte(`{"op":"reach","path":"","content":"000102030405060708090a0b0c0d0e0f","dirs":[[1,2,448],[0,0,0]]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var quick Record
		if Parse(b, &quick) {
			if slow, err := decodeAny(b); quick.check() == nil && (err != nil || !reflect.DeepEqual(quick, slow)) {
				t.Fatalf("%s is %+v, and package json says %+v, %v", b, quick, slow, err)
			}
		}
		r, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(r.Encode())
		if err != nil {
			t.Fatalf("%s: %v", r.Encode(), err)
		}
		if string(again.Encode()) != string(r.Encode()) {
			t.Fatalf("%s became %s", r.Encode(), again.Encode())
		}
	})
}

package validate

import (
	"errors"
	"strings"
	"testing"
)

// However a parser dies to which the kernel gives no more memory, the content is too much.
func TestParserWithoutMemory(t *testing.T) {
	for said, want := range map[string]string{
		"fatal error: out of memory allocating heap arena metadata\n":                                   tooMuchMemory,
		"runtime: cannot allocate memory\n":                                                             tooMuchMemory,
		"SIGSEGV: segmentation violation\nPC=0x433d7d m=2 sigcode=1 addr=0x0\n\ngoroutine 0 gp=0x3b\n":  tooMuchMemory,
		"panic: runtime error: index out of range\n[signal SIGSEGV: segmentation violation code=0x1]\n": "the parser failed",
	} {
		p := &process{}
		p.out.most = 64 << 10
		if _, err := p.out.Write([]byte(said)); err != nil {
			t.Fatal(err)
		}
		var r *Refusal
		if !errors.As(p.parseFailed(errors.New("exit status 2"), YAML), &r) || !strings.Contains(r.Reason, want) {
			t.Errorf("%q: %+v", said, r)
		}
	}
}

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal and returns both ends of it.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine has no pseudo-terminals")
	}
	t.Cleanup(func() { screen.Close() })
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine has no pseudo-terminals")
	}
	return screen, terminal
}

// shown is what a terminal shows of a file's content.
func shown(t *testing.T, content string) (string, error) {
	screen, terminal := openTerminal(t)
	done := make(chan string)
	go func() {
		b, _ := io.ReadAll(screen) // it ends with an error
		done <- strings.ReplaceAll(string(b), "\r\n", "\n")
	}()
	err := copyOut(terminal, strings.NewReader(content))
	terminal.Close()
	return <-done, err
}

func TestCopyToTerminal(t *testing.T) {
	for content, want := range map[string]string{
		"":                 "",
		"plain\ttext\n":    "plain\ttext\n",
		"naïve 雪\n":        "naïve 雪\n",
		"\x1b]0;x\x07\x7f": "^[]0;x^G^?",
		"a\u202eb\u009bc":  `a\u202eb\u009bc`,
		"lone \xff, \xe9":  `lone \xff, \xe9`,
		"dos\r\n":          "dos^M\n",
	} {
		if got, err := shown(t, content); got != want || err != nil {
			t.Errorf("%q is shown as %q, %v", content, got, err)
		}
	}
	if got, err := shown(t, "ELF\x00\x01"); got != "" || !errors.Is(err, errBinary) {
		t.Errorf("binary data are shown as %q, %v", got, err)
	}
}

// Characters are shown whole wherever a write ends.
func TestVisibleInPieces(t *testing.T) {
	const text = "é雪\U0001f600 \xf0\x9f end\xe9"
	var whole bytes.Buffer
	v := visible{to: &whole}
	for i := range len(text) {
		if n, err := v.Write([]byte{text[i]}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := v.flush(); err != nil {
		t.Fatal(err)
	}
	if want := `é雪😀 \xf0\x9f end\xe9`; whole.String() != want {
		t.Errorf("shown is %q, want %q", whole.String(), want)
	}
}

func TestCopyToFile(t *testing.T) {
	var out bytes.Buffer
	const content = "\x00\x1b\xff"
	if err := copyOut(&out, strings.NewReader(content)); err != nil || out.String() != content {
		t.Errorf("%q, %v", out.String(), err)
	}
}

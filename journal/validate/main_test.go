package validate

import (
	"os"
	"testing"
)

// The test binary is its own helper.
func TestMain(m *testing.M) {
	Serve()
	os.Exit(m.Run())
}

package validate

import (
	"os"
	"testing"
)

// The test binary is its own helper, and the daemon that is killed.
func TestMain(m *testing.M) {
	Serve()
	if options, ok := os.LookupEnv(asDaemon); ok {
		serveDaemon(options)
	}
	os.Exit(m.Run())
}

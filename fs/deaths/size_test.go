package deaths

import "testing"

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 2: "2 bytes", 999: "999 bytes", 1000: "1.0 kB", 3449: "3.4 kB", 9949: "9.9 kB", 9951: "10 kB",
		999_499: "999 kB", 999_500: "1.0 MB", 12_000_000: "12 MB", 999_499_999_999: "999 GB", 999_500_000_000: "1.0 TB", 5_000_000_000_000_000: "5000 TB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

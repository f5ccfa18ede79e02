// Package figures says what measured times amount to: medians, ratios of what was measured
// in the same rounds, the targets that those have to meet, and how all of it is written.
// It is pure: numbers in, numbers and words out. Times are nanoseconds; what could not be
// measured is Missing, and is left out wherever it would count.
package figures

// Package policies holds the presets: policies that come with the program, for systems
// that have a locking of their own and for common ways to work. Each is one of the TOML
// files beside this one, which are examples to read and copy as well.
package policies

import "embed"

//go:embed agents.toml beads.toml clawdbot.toml cleo.toml reverie.toml tower-fleet.toml
var files embed.FS

// Names returns the names of all presets, in order.
func Names() []string {
	entries, _ := files.ReadDir(".") // the files are part of the program
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()[:len(e.Name())-len(extension)]
	}
	return names
}

// Preset returns the text of a preset, as in a policy file.
func Preset(name string) (text []byte, ok bool) {
	text, err := files.ReadFile(name + extension)
	return text, err == nil
}

const extension = ".toml"

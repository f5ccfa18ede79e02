package main

import (
	"path"
	"strings"

	"github.com/spf13/cobra"

	"latchfs/examples/policies"
	"latchfs/lockmgr/policy"
)

// policyFlags say which policy is meant.
type policyFlags struct {
	config  string
	presets []string
}

// register declares the flags.
func (f *policyFlags) register(cmd *cobra.Command, config string) {
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", config)
	fl.StringArrayVar(&f.presets, "preset", nil, "a policy that comes with latchfs, as `NAME` or NAME=SUBTREE: "+
		strings.Join(policies.Names(), ", ")+"; repeat it for several subtrees")
	_ = cmd.RegisterFlagCompletionFunc("preset", // the flag is there
		cobra.FixedCompletions(policies.Names(), cobra.ShellCompDirectiveNoFileComp))
}

// load reads the policy; without flags the built-in rules hold.
func (f *policyFlags) load() (*policy.Policy, error) {
	presets, err := f.parse()
	if err != nil {
		return nil, err
	}
	return policy.LoadWith(f.config, presets)
}

// parse reads the --preset flags.
func (f *policyFlags) parse() ([]policy.Preset, error) {
	var presets []policy.Preset
	for _, word := range f.presets {
		name, subtree, ok := strings.Cut(word, "=")
		text, known := policies.Preset(name)
		switch {
		case !known:
			return nil, usagef("--preset %s: there is no preset %q; there are %s", word, name, strings.Join(policies.Names(), ", "))
		case ok && subtree == "":
			return nil, usagef("--preset %s: the directory is empty; without a directory it is --preset %s", word, name)
		case strings.HasPrefix(subtree, "/"):
			return nil, usagef("--preset %s: the directory is given from the mount's root on, as in %s=repo", word, name)
		}
		if subtree = path.Clean(subtree); subtree == "." {
			subtree = "" // the whole mount
		}
		presets = append(presets, policy.Preset{Name: name, Subtree: subtree, Data: text})
	}
	if err := policy.CheckPresets(presets); err != nil {
		return nil, usagef("--preset: %v", err)
	}
	return presets, nil
}

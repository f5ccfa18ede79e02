package main

import "strings"

// optionKind says what becomes of a mount option.
type optionKind uint8

const (
	optIgnored optionKind = iota // for mount(8), systemd or other filesystems
	optKernel                    // a flag of the mount, passed on
	optFlag                      // our own, without a value
	optValue                     // our own, with a value
	optFixed                     // a flag with a given value
	optVain                      // accepted, and said to have no effect
	optRefused                   // cannot be done, and said so
)

// mountOptions are the words that an fstab line may hold (mount(8),
// "Filesystem-independent mount options"; mount.fuse(8); our own). Our own are
// the flags of `latchfs mount`, spelled with '_' or '-'.
var mountOptions = map[string]struct {
	kind optionKind
	flag string // of `latchfs mount`
}{
	"ro":          {optFlag, "read-only"},
	"rw":          {optFixed, "read-only=false"},
	"read-only":   {optFlag, "read-only"},
	"allow-other": {optFlag, "allow-other"},

	"config":         {optValue, "config"},
	"preset":         {optValue, "preset"},
	"durability":     {optValue, "durability"},
	"grace":          {optValue, "grace"},
	"lock-timeout":   {optValue, "lock-timeout"},
	"locks-dir":      {optValue, "locks-dir"},
	"list-locks":     {optFlag, "list-locks"},
	"log-file":       {optValue, "log-file"},
	"log-level":      {optValue, "log-level"},
	"debug":          {optFlag, "debug"},
	"no-passthrough": {optFlag, "no-passthrough"},

	"dev": {kind: optKernel}, "nodev": {kind: optKernel},
	"exec": {kind: optKernel}, "noexec": {kind: optKernel},
	"suid": {kind: optKernel}, "nosuid": {kind: optKernel},
	"sync": {kind: optKernel}, "async": {kind: optKernel}, "dirsync": {kind: optKernel},

	"auto": {}, "noauto": {}, "nofail": {}, "_netdev": {}, "defaults": {},
	"user": {}, "nouser": {}, "users": {}, "owner": {}, "group": {},
	// FUSE keeps no access times; the filesystem underneath does, as it was
	// mounted.
	"atime": {}, "relatime": {}, "norelatime": {}, "nostrictatime": {}, "nolazytime": {}, "diratime": {},
	"noatime": {kind: optVain}, "strictatime": {kind: optVain}, "lazytime": {kind: optVain}, "nodiratime": {kind: optVain},
	"noiversion": {}, "nomand": {}, "silent": {}, "loud": {},
	"iversion": {kind: optVain}, "mand": {kind: optVain},
	"remount":             {kind: optRefused},
	"default-permissions": {}, // always on
	"nonempty":            {}, // mounting over a full directory is the rule here
	"fsname":              {}, "subtype": {}, "comment": {}, "helper": {},
}

// translateOption turns one mount option into a flag of `latchfs mount`. The
// flag is empty for what is accepted and means nothing here.
func translateOption(option string) (flag string, known bool, err error) {
	name, value, hasValue := strings.Cut(option, "=")
	if strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "X-") {
		return "", true, nil // for userspace, never for the filesystem (mount(8))
	}
	o, known := mountOptions[canonicalOption(name)]
	if !known {
		return "", false, nil
	}
	switch o.kind {
	case optIgnored, optVain:
		return "", true, nil
	case optRefused:
		return "", true, usagef("mount option %q: a running mount of latchfs cannot be changed; unmount it (latchfs umount MOUNTPOINT), and mount it with the other options", name)
	case optValue:
		if !hasValue || value == "" {
			return "", true, usagef("mount option %q needs a value", name)
		}
		return "--" + o.flag + "=" + value, true, nil
	case optKernel, optFlag, optFixed:
	}
	if hasValue {
		return "", true, usagef("mount option %q takes no value", name)
	}
	if o.kind == optKernel {
		return "--mount-option=" + name, true, nil
	}
	return "--" + o.flag, true, nil
}

// inVain tells whether an option asks for what the mount cannot do and need not be
// refused for.
func inVain(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	return mountOptions[canonicalOption(name)].kind == optVain
}

// canonicalOption spells an option as the table does.
func canonicalOption(name string) string {
	if strings.HasPrefix(name, "_") {
		return name // _netdev
	}
	return strings.ReplaceAll(name, "_", "-")
}

// splitOptions splits a list of options at its commas; a value in double quotes
// may contain some (mount(8)).
func splitOptions(list string) []string {
	var options []string
	var word strings.Builder
	quoted := false
	flush := func() {
		if word.Len() > 0 {
			options = append(options, word.String())
			word.Reset()
		}
	}
	for _, c := range []byte(list) {
		switch {
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			flush()
		default:
			word.WriteByte(c)
		}
	}
	flush()
	return options
}

package policy

// originBuiltin is the Origin of the rules below.
const originBuiltin = "built-in"

// builtinRules are the rules that hold after those of the policy file: the
// live files of DESIGN 4.5. They keep databases, lock files and streams as they
// are on a plain directory. examples/policies/default.toml says the same, with
// reasons, and a test keeps the two together.
func builtinRules() []Rule {
	rules := []Rule{
		// Dependency lock files are data that tools write whole; the name only
		// looks like a lock.
		{Mode: Atomic, Glob: []string{
			"Cargo.lock", "Gemfile.lock", "Pipfile.lock", "composer.lock",
			"flake.lock", "mix.lock", "pdm.lock", "poetry.lock",
			"pubspec.lock", "uv.lock", "yarn.lock",
		}},
		// Databases coordinate their writers with byte-range locks and shared
		// mappings. A journal beside one must survive its writer's death, or
		// the database cannot recover.
		{Mode: Live, Glob: []string{
			"*.db", "*.db-*", "*.sqlite*",
			"*.*-wal", "*.*-shm", "*.*-journal",
			"*.mdb", "*.mdb-lock",
		}},
		// Servers append to them and sync them without an end, and rename them while
		// they are open. What a killed one has acknowledged is in them.
		{Mode: Live, Glob: []string{"*.aof", "*.rdb"}},
		// Locks are taken by creating the file, by flock on it, or by what is
		// in it: none of them may wait for a commit. An editor's swap file tells
		// the next editor that the file is being edited.
		{Mode: Live, Glob: []string{"*.lock", "*.lck", ".cargo-lock", "*.pid", ".*.sw?"}},
		// Programs of the Go toolchain count in these, each in a shared mapping that it
		// has as long as it runs. The next one shall not wait for that.
		{Mode: Live, Glob: []string{"*.v1.count"}},
		// git keeps its own atomicity, with names that appear at once.
		{Mode: Live, Glob: []string{"**/.git/**"}},
		// Streams are followed while they grow.
		{Mode: Live, Glob: []string{
			"*.log", "*.log.*", "*.log-*", "*.out", "nohup.out", "typescript", "*.part",
		}},
	}
	for i := range rules {
		rules[i].origin = originBuiltin
	}
	return rules
}

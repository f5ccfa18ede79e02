package counting

// Generations is how many processes Unrelated puts between a caller and its
// command: one more than knowledge of a version goes up.
const Generations = 4

// Unrelated is a command with parents of its own.
//
// What a process reads and commits is credited to its ancestors, up to three.
// Workers that are children of one process therefore have a relative who always
// knows the newest version, by whichever of them got it last. That is harmless
// for a worker who has read himself, or whose child has, for the nearest who
// knows decides; but whoever has read nothing would be told what his siblings
// know, and under `lost-update = "serialize"`, where an update lock is taken for
// a lineage, workers with a close common ancestor would not exclude each other.
// Four shells above each command keep even the ancestors of the command itself
// apart from everybody else's. The shells never touch a file.
func Unrelated(argv []string) []string {
	for range Generations {
		// With something left to do, the shell cannot replace itself by its command.
		argv = append([]string{"sh", "-c", `"$@"; exit $?`, "sh"}, argv...)
	}
	return argv
}

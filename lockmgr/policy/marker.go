package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"latchfs/lockmgr/policy/internal/glob"
	"latchfs/lockmgr/policy/internal/position"
)

// factoryMarkers are the files by which the directory of a database is told:
// PostgreSQL, MySQL and MariaDB (InnoDB, Aria), MongoDB, LevelDB and RocksDB.
// Each of them must be a name that nothing else uses. CURRENT alone is not one.
func factoryMarkers() []string {
	return []string{"PG_VERSION", "ibdata1", "aria_log_control", "WiredTiger", "CURRENT+MANIFEST-*"}
}

// markerSep stands between the names of a marker that consists of several files.
const markerSep = "+"

// MarkerFiles returns the globs of the files that a marker consists of: a
// directory has the marker if it holds a file for each of them.
func MarkerFiles(marker string) []string { return strings.Split(marker, markerSep) }

// IsLiteral reports whether a glob that MarkerFiles returns is the name of one file.
func IsLiteral(file string) bool { return glob.IsLiteral(file) }

// MarkerMatches reports whether a file of this name stands for one of the globs
// that MarkerFiles returns.
func MarkerMatches(glob, name string) bool { return doublestar.MatchUnvalidated(glob, name) }

// markers are all that some path's Settings.LiveIf may hold.
type markers struct {
	list  []string
	names map[string]bool // the files that they consist of
	globs []string        // those that are not literal names
}

// Markers returns every marker that holds for some path, each once. The caller
// must not change the list.
func (p *Policy) Markers() []string { return p.markers.list }

// MayMark reports whether a file of this name is one that a marker consists of, so
// that a directory may have become live, or ceased to be, when it comes or goes.
func (p *Policy) MayMark(name string) bool {
	return p.markers.names[name] ||
		slices.ContainsFunc(p.markers.globs, func(glob string) bool { return MarkerMatches(glob, name) })
}

// gatherMarkers collects the markers of the defaults and of every rule.
func (p *Policy) gatherMarkers() {
	m := &p.markers
	m.names = map[string]bool{}
	lists := [][]string{p.defaults.LiveIf}
	for i := range p.matchers {
		lists = append(lists, p.matchers[i].settings.LiveIf)
	}
	for _, marker := range slices.Concat(lists...) {
		if slices.Contains(m.list, marker) {
			continue
		}
		m.list = append(m.list, marker)
		for _, file := range MarkerFiles(marker) {
			if IsLiteral(file) {
				m.names[file] = true
			} else {
				m.globs = append(m.globs, file)
			}
		}
	}
}

// checkMarker says what is wrong with a marker, or "".
func checkMarker(marker string) string {
	bad := func(reason string, args ...any) string {
		return fmt.Sprintf("bad live-if %q: ", marker) + fmt.Sprintf(reason, args...)
	}
	for _, file := range MarkerFiles(marker) {
		switch {
		case file == "" && marker == "":
			return bad("a marker names a file")
		case file == "":
			return bad("a file name is missing beside the %q", markerSep)
		case strings.ContainsAny(file, "/\x00"):
			return bad("a marker is a name in the directory that it marks, without a %q", "/")
		case file == "." || file == "..":
			return bad("every directory has %q", file)
		case !doublestar.ValidatePattern(file):
			return bad("a bracket, a brace or a backslash is not closed")
		case strings.Trim(path.Clean(file), "*") == "":
			return bad("any file would mark its directory")
		}
	}
	return ""
}

// live reads live-if, if key is that.
func (p *parser) live(r *Rule, at position.Node, key string, v any) bool {
	if key == keyLiveIf {
		r.LiveIf = p.Strings(at, key, v, 0, checkMarker)
		return true
	}
	return false
}

// overLive lays the rule's own markers over s.
func (r Rule) overLive(s *Settings) {
	if r.LiveIf == nil {
		return
	}
	s.LiveIf = r.LiveIf
	if len(s.LiveIf) == 0 {
		s.LiveIf = nil // one way to say none
	}
}

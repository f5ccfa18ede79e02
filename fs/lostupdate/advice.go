package lostupdate

import (
	"fmt"
	"path"

	"latchfs/fs/printable"
	"latchfs/lockmgr/knowledge"
)

// Advice says what to do about a refusal.
func (l *Loss) Advice() string {
	file := printable.Line(l.Path)
	var text string
	switch {
	case l.Source != nil && l.Source.Over != "":
		text = "Nothing was renamed. Write the new content to a temporary file whose name no other program uses, and rename that."
	case l.Source != nil:
		temp := printable.Line(l.Source.Path)
		text = fmt.Sprintf("Nothing was renamed. Run the command that wrote %s again, so that it starts from %s, and rename %s only then.",
			temp, l.newer(), temp)
	case l.Basis.Newer.Stamp == knowledge.Stamp{}:
		text = "Nothing has changed. Look whether the file is still wanted, and run the command again."
	case l.Names:
		text = file + " was left as it is. Read " + l.newer() + ", and run the command again if it is still right."
	default:
		text = file + " was left as it is. To start from " + l.newer() +
			", reload it in the program, or run the command again if that reads it."
	}
	if l.mayInsist() && (l.Source == nil || l.Source.Over == "") {
		again := "write it again without reading it"
		if l.Source != nil {
			again = "rename " + printable.Line(l.Source.Path) + " again as it is"
		}
		text += " To overwrite " + l.newer() + " on purpose, " + again + ", one second to ten minutes from now"
		if l.j.Engine.KeepsHistory(l.Set) {
			text += "; `latchfs history " + printable.Word(path.Join(l.j.Mountpoint, l.Path)) + "` will still have it"
		}
		text += "."
	}
	return text
}

// AdviceWithoutSource is Advice for a rename whose temporary file is no longer there.
func (l *Loss) AdviceWithoutSource() string {
	temp := printable.Line(l.Source.Path)
	return fmt.Sprintf("Nothing was renamed, and %s is no longer there. Run the command that wrote it again, so that it starts from %s.", temp, l.newer())
}

// AdviceOn is Advice for a commit whose bytes are kept under id; "" of nil.
func (l *Loss) AdviceOn(id string) string {
	switch {
	case l == nil:
		return ""
	case id == "":
		return l.Advice()
	}
	return fmt.Sprintf("%s `latchfs rejected diff %s` shows what was written beside the file as it is now.", l.Advice(), id)
}

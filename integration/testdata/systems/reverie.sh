#!/usr/bin/env bash
# File locks for worker sessions in the manner of reverie's ADR-007: a directory for each
# file, which mkdir makes or fails to make, with its defects.
#
#   reverie.sh acquire FILE...        all of them or none
#   reverie.sh release FILE...
#   reverie.sh check FILE             exit code 0: free, 1: locked
#   reverie.sh list
#   reverie.sh guard FILE... -- CMD   run CMD under the locks; its exit code is the answer
#   reverie.sh reclaim FILE           the lock of a session that has ended
#   reverie.sh append FILE TEXT       under its lock; it reclaims one whose session has ended
#
# SESSION is who it is, OWNERS a directory with a file for each session that lives, ROOT
# where the locks are. At the point that PAUSE names it says "at POINT" and waits for a
# line, or the end, of its standard input.
set -uo pipefail
exec 8>&1 9<&0

ROOT=${ROOT:-$PWD} SESSION=${SESSION:-session-$$} OWNERS=${OWNERS:-/nonexistent} REASON=${REASON:-edit}

pause() {
	[[ ${PAUSE-} == "$1" ]] || return 0
	echo "at $1" >&8
	read -r _ <&9 || :
}

# lock_of FILE: a file has one lock from any directory, and from each worktree.
lock_of() {
	local path
	path=$(realpath -m --relative-to="$ROOT" "$1")
	path=${path#worktrees/*/}
	echo "$ROOT/locks/$path.lock"
}

owner_of() { cat "$1/owner" 2>/dev/null; }

take() {
	local lock
	lock=$(lock_of "$1")
	mkdir -p "$(dirname "$lock")"
	if ! mkdir "$lock" 2>/dev/null; then
		[[ $(owner_of "$lock") == "$SESSION" ]] && return 0 # a worker inherits what its parent has locked
		echo "$1 is locked by $(owner_of "$lock")" >&2
		return 1
	fi
	echo "$SESSION" >"$lock/owner"
	jq -n --arg reason "$REASON" --arg time "$(date -u +%Y-%m-%dT%H:%M:%SZ)" '{reason: $reason, timestamp: $time}' >"$lock/record.json"
}

drop() {
	local lock
	lock=$(lock_of "$1")
	[[ -d $lock ]] || return 0
	if [[ $(owner_of "$lock") != "$SESSION" ]]; then
		echo "$1 is locked by $(owner_of "$lock")" >&2
		return 1
	fi
	rm -rf "$lock"
}

acquire() {
	local file taken=()
	for file; do
		if ! take "$file"; then
			for file in "${taken[@]}"; do drop "$file"; done
			return 1
		fi
		taken+=("$file")
	done
}

release() {
	local file status=0
	for file; do drop "$file" || status=1; done
	return "$status"
}

# Two that find it dead both remove what they find under its name.
reclaim() {
	local lock
	lock=$(lock_of "$1")
	[[ -d $lock ]] || return 0
	[[ ! -e $OWNERS/$(owner_of "$lock") ]] || { echo "$1 is locked by $(owner_of "$lock")" >&2; return 1; }
	pause dead
	rm -rf "$lock"
}

guard() {
	local files=() status
	while (($# > 0)) && [[ $1 != -- ]]; do
		files+=("$1")
		shift
	done
	shift
	acquire "${files[@]}" || return 1
	trap 'release "${files[@]}"' EXIT
	SESSION=$SESSION "$@"
	status=$?
	release "${files[@]}"
	trap - EXIT
	return "$status"
}

append() {
	local old new
	reclaim "$1" && take "$1" || return 1
	echo acquired
	old=$(cat "$1")
	pause read
	new=$(mktemp "$1.XXXXXX")
	printf '%s\n' "$old" "$2" >"$new" && mv -f "$new" "$1" || { rm -f "$new"; release "$1"; return 1; }
	echo appended
	release "$1"
}

case $1 in
acquire) acquire "${@:2}" ;;
release) release "${@:2}" ;;
check) [[ ! -d $(lock_of "$2") ]] ;;
list) find "$ROOT/locks" -name '*.lock' -type d -printf '%P\n' 2>/dev/null | sort ;;
guard) guard "${@:2}" ;;
reclaim) reclaim "$2" ;;
append) append "$2" "$3" ;;
*) exit 2 ;;
esac
exit

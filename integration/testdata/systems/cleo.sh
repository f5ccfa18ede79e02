#!/usr/bin/env bash
# A task tool in the manner of cleo: its state is JSON, each of its commands locks a file
# by flock on one beside it, and saves by way of a temporary file.
#
#   cleo.sh init                 make an empty list
#   cleo.sh add TEXT             add a task with the next id
#   cleo.sh add-early TEXT       the same, but it reads before it locks: the defect
#   cleo.sh log TEXT             append a line to the log
#   cleo.sh hold FILE...         lock files
#   cleo.sh save                 replace the list by standard input
#   cleo.sh unlock-twice         release a lock twice, and one that is not held
#
# At the point that PAUSE names it says "at POINT" and waits for a line, or the end, of
# its standard input.
set -uo pipefail
exec 8>&1 9<&0

readonly E_FAILED=1 E_VALIDATION=6 E_LOCK_FAILED=8 FIRST_FD=200 LAST_FD=210
readonly TODO=todo.json LOG=todo-log.jsonl
LOCK_TIMEOUT=${LOCK_TIMEOUT:-30} MAX_BACKUPS=${MAX_BACKUPS:-5}
declare -A HELD=()
TEMP=

pause() {
	[[ ${PAUSE-} == "$1" ]] || return 0
	echo "at $1" >&8
	read -r _ <&9 || :
}

# lock_file FILE [SECONDS]: a file that this process holds already is held once.
lock_file() {
	local file=$1 seconds=${2:-$LOCK_TIMEOUT} fd
	[[ -z ${HELD[$file]-} ]] || return 0
	for ((fd = FIRST_FD; fd <= LAST_FD; fd++)); do
		[[ -e /proc/$$/fd/$fd ]] || break
	done
	((fd <= LAST_FD)) || { echo "no descriptor is left for a lock" >&2; return $E_LOCK_FAILED; }
	eval "exec $fd>\"\$file.lock\"" || return $E_LOCK_FAILED
	if ! flock -x -w "$seconds" "$fd"; then
		eval "exec $fd>&-"
		echo "Failed to acquire lock (timeout after ${seconds}s)" >&2
		echo "Cannot acquire lock on $file (another process may be active); try: fuser -v $file.lock" >&2
		return $E_LOCK_FAILED
	fi
	HELD[$file]=$fd
}

# unlock_file FILE: nothing happens where it is not held.
unlock_file() {
	local fd=${HELD[$1]-}
	[[ -n $fd ]] || return 0
	eval "exec $fd>&-"
	unset "HELD[$1]"
}

cleanup() {
	local file
	[[ -z $TEMP ]] || rm -f "$TEMP"
	for file in "${!HELD[@]}"; do unlock_file "$file"; done
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# backup FILE keeps it as FILE.1, and what was FILE.1 as FILE.2.
backup() {
	local n
	[[ -e $1 ]] && ((MAX_BACKUPS > 0)) || return 0
	mkdir -p backups
	for ((n = MAX_BACKUPS - 1; n >= 1; n--)); do
		[[ ! -e backups/$1.$n ]] || mv -f "backups/$1.$n" "backups/$1.$((n + 1))"
	done
	cp -p "$1" "backups/$1.1"
}

# save_json FILE replaces it by standard input.
save_json() {
	TEMP=$(mktemp "$1.tmp.XXXXXX") || return $E_FAILED
	cat >"$TEMP" || return $E_FAILED
	pause temp
	if [[ ! -s $TEMP ]] || ! jq -e . "$TEMP" >/dev/null 2>&1; then
		echo "$1: not saved, for it would not be JSON" >&2
		return $E_VALIDATION
	fi
	pause validated
	backup "$1" || return $E_FAILED
	pause backup
	mv -f "$TEMP" "$1" || return $E_FAILED
	TEMP=
	pause renamed
}

with_task() { jq --arg text "$1" '.tasks += [{id: (([.tasks[].id] | max // 0) + 1), text: $text}]' <<<"$2"; }

add() {
	lock_file "$TODO" || return
	local old
	old=$(cat "$TODO") || return $E_FAILED
	pause read
	save_json "$TODO" < <(with_task "$1" "$old") || return
	unlock_file "$TODO"
}

# The exclusion does not span the read.
add_early() {
	local old
	old=$(cat "$TODO") || return $E_FAILED
	pause read
	lock_file "$TODO" || return
	save_json "$TODO" < <(with_task "$1" "$old") || return
	unlock_file "$TODO"
}

case $1 in
init)
	lock_file "$TODO" || exit
	save_json "$TODO" <<<'{"tasks": []}' || exit
	;;
add) add "$2" || exit ;;
add-early) add_early "$2" || exit ;;
log)
	lock_file "$LOG" || exit
	jq -cn --arg text "$2" '{$text}' >>"$LOG" || exit $E_FAILED
	;;
hold)
	for file in "${@:2}"; do lock_file "$file" || exit; done
	for file in "${@:2}"; do lock_file "$file" 0 || exit; done # what it holds it does not wait for
	pause locked
	;;
save)
	lock_file "$TODO" || exit
	save_json "$TODO" || exit
	;;
unlock-twice)
	unlock_file "$TODO"
	lock_file "$TODO" || exit
	unlock_file "$TODO"
	unlock_file "$TODO"
	;;
*) exit 2 ;;
esac

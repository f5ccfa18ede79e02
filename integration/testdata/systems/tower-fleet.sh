#!/usr/bin/env bash
# A lock manager for deployments in the manner of tower-fleet: lock/v1 records in a
# directory, made and changed with bash and jq, with its defects.
#
#   tower-fleet.sh acquire NAME       print its request id
#   tower-fleet.sh release NAME [RESULT [STEP]]
#   tower-fleet.sh heartbeat NAME
#   tower-fleet.sh heartbeats NAME    until three in a row have failed
#   tower-fleet.sh steal NAME         a stale lock; with FORCE=1 it does
#   tower-fleet.sh check NAME
#   tower-fleet.sh deploy NAME TEXT   under the lock, add a line to state/NAME.json
#   tower-fleet.sh observe NAME       read it, without any lock
#
# At the point that PAUSE names it says "at POINT" and waits for a line, or the end, of
# its standard input. REQUEST_ID, ACTOR, INTENT and TTL (in seconds) are those of a record.
set -uo pipefail
exec 8>&1 9<&0
umask 077

readonly LOCKS=locks AUDIT=audit.jsonl
REQUEST_ID=${REQUEST_ID:-req-$$} ACTOR=${ACTOR:-ci} INTENT=${INTENT:-deploy} TTL=${TTL:-900} NOW=${NOW:-}

pause() {
	[[ ${PAUSE-} == "$1" ]] || return 0
	echo "at $1" >&8
	read -r _ <&9 || :
}

now() { [[ -n $NOW ]] && echo "$NOW" || date -u +%Y-%m-%dT%H:%M:%SZ; }
age_of() { echo $(($(date -u -d "$(now)" +%s) - $(date -u -d "$(jq -r .last_heartbeat_at "$1")" +%s))); }

# audit EVENT [JSON]
audit() {
	jq -cn --arg event "$1" --arg id "$REQUEST_ID" --arg time "$(now)" --arg name "$NAME" --argjson more "${2:-{\}}" \
		'{event: $event, request_id: $id, timestamp: $time, lock_name: $name} + $more' >>"$AUDIT"
}

record() {
	jq -n --arg name "$NAME" --arg id "$REQUEST_ID" --arg actor "$ACTOR" --arg intent "$INTENT" --arg host "$(hostname)" \
		--argjson pid $$ --arg time "$(now)" --argjson ttl "$TTL" \
		'{lock_version: "v1", lock_name: $name, request_id: $id, actor: $actor, intent: $intent, intent_version: "v1",
		  host_id: $host, pid: $pid, created_at: $time, last_heartbeat_at: $time, ttl_seconds: $ttl}'
}

stale() { (($(age_of "$LOCK") > $(jq .ttl_seconds "$LOCK"))); }

blocked() {
	jq -c '{error: "lock_blocked", lock_name, held_by: {request_id, actor, intent, created_at, last_heartbeat_at},
		suggestion: "wait, or look at the holder"}' "$LOCK"
}

blocked_stale() {
	jq -c --argjson age "$(age_of "$LOCK")" '{error: "lock_stale", lock_name,
		stale_since: ((.last_heartbeat_at | fromdate) + .ttl_seconds | todate), age_seconds: $age, ttl_seconds,
		held_by: {request_id, actor, intent, created_at, last_heartbeat_at, host_id, pid}, suggestion: "steal it with FORCE=1"}' "$LOCK"
}

# Of two that create the file one fails.
acquire() {
	mkdir -p -m 700 "$LOCKS"
	if ! (set -o noclobber; record >"$LOCK") 2>/dev/null; then
		if stale; then blocked_stale; else blocked; fi
		return 8
	fi
	audit lock_acquired "$(jq -cn --arg path "$LOCK" --argjson ttl "$TTL" '{lock_path: $path, ttl_seconds: $ttl}')"
}

mine() { [[ $(jq -r .request_id "$LOCK" 2>/dev/null) == "$REQUEST_ID" ]]; }

# It is looked at, and then replaced: by then it may be another's.
heartbeat() {
	local new
	mine || return 1
	new=$(mktemp "$LOCKS/.beat.XXXXXX")
	jq --arg time "$(now)" '.last_heartbeat_at = $time' "$LOCK" >"$new" || { rm -f "$new"; return 1; }
	pause beat
	mv -f "$new" "$LOCK" || { rm -f "$new"; return 1; }
}

# heartbeats warns of a failure and tries again; the third in a row is told.
heartbeats() {
	local failures=0
	while :; do
		if heartbeat; then failures=0; else
			echo "warning: heartbeat of $NAME has failed" >&2
			((++failures < 3)) || { audit heartbeat_failed; return 1; }
		fi
	done
}

release() {
	if [[ ! -e $LOCK ]]; then
		echo "warning: $NAME is not locked" >&2
		return 0
	fi
	mine || { echo "refused: $NAME is locked by $(jq -r .request_id "$LOCK")" >&2; return 1; }
	local held
	held=$(age_of <(jq '.last_heartbeat_at = .created_at' "$LOCK"))
	if ! rm "$LOCK"; then
		audit lock_release_failed "$(jq -cn --arg path "$LOCK" '{lock_path: $path, error: "rm", action: "manual_cleanup_required"}')"
		return 1
	fi
	audit lock_released "$(jq -cn --argjson s "$held" --arg r "${1:-success}" --arg step "${2-}" \
		'{held_duration_seconds: $s, result: $r} + if $step == "" then {} else {failure_step: $step} end')"
}

# Two that find it stale both remove what they find under its name.
steal() {
	stale || { blocked; return 8; }
	[[ ${FORCE-} == 1 ]] || { blocked_stale; return 8; }
	local hash previous
	hash=sha256:$(sha256sum <"$LOCK" | cut -d' ' -f1) previous=$(jq -c . "$LOCK")
	pause stale
	rm -f "$LOCK" || return 1
	acquire || return
	audit lock_stolen "$(jq -cn --argjson p "$previous" --arg h "$hash" '{previous_lock: $p, previous_lock_hash: $h, reason: "stale_lock_forced"}')"
}

# apply TEXT adds a deployment to the state.
apply() {
	local old new
	old=$(cat "$STATE" 2>/dev/null || echo '[]')
	pause read
	new=$(mktemp "$STATE.XXXXXX")
	jq -c --arg text "$1" '. + [$text]' <<<"$old" >"$new" && mv -f "$new" "$STATE" || { rm -f "$new"; return 1; }
}

NAME=$2
[[ $NAME =~ ^[a-z0-9]([a-z0-9_-]{0,126}[a-z0-9])?$ ]] || { echo "bad name: $NAME" >&2; exit 2; }
LOCK=$LOCKS/$NAME.lock STATE=state/$NAME.json
mkdir -p state

case $1 in
acquire) acquire || exit; echo "$REQUEST_ID" ;;
heartbeat) heartbeat || exit ;;
heartbeats) heartbeats || exit ;;
release) release "${@:3}" || exit ;;
steal) steal || exit; pause stolen ;;
check) if [[ -e $LOCK ]]; then jq . "$LOCK"; exit 1; fi ;;
observe) cat "$STATE" ;;
deploy)
	if [[ ${FORCE-} == 1 ]]; then steal || exit; else acquire || exit; fi
	echo acquired
	if apply "$3"; then result=(success); else result=(failure apply); fi
	[[ ${result[0]} != success ]] || echo applied
	release "${result[@]}" || exit
	[[ ${result[0]} == success ]] || exit 1
	;;
*) exit 2 ;;
esac

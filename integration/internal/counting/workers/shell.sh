# $1 is the increment, a piece of shell, evaluated anew for every attempt. A worker
# that is refused again and again waits longer and longer, up to a second.
increment=$1 path=$2 increments=$3 mode=$4
echo ready
read -r _
for ((i = 0; i < increments; i++)); do
  longest=20
  while :; do
    message=$(eval "$increment" 2>&1) && echo ok && break
    echo "refused: ${message//$'\n'/ }"
    [ "$mode" = retry ] || break
    printf -v pause '0.%03d' $((RANDOM % longest))
    sleep "$pause"
    ((longest = longest < 500 ? 2 * longest : 1000))
  done
done
rm -f "$path.$$"

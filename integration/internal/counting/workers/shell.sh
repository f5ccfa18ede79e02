# $1 is the increment, a piece of shell, evaluated anew for every attempt.
increment=$1 path=$2 increments=$3 mode=$4
echo ready
read -r _
for ((i = 0; i < increments; i++)); do
  while :; do
    message=$(eval "$increment" 2>&1) && echo ok && break
    echo "refused: ${message//$'\n'/ }"
    [ "$mode" = retry ] || break
    sleep "0.0$((RANDOM % 20))"
  done
done
rm -f "$path.$$"

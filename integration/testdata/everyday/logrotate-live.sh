# The same with names that logs have, and a writer that keeps its log open.
exec 7>> app.log
for round in 1 2 3; do
  echo "line $round" >&7; sh -c 'sh -c "echo below >> app.log; true"'
  cat app.log
  for n in 2 1; do [ ! -e app.log.$n ] || mv app.log.$n app.log.$((n + 1)); done
  mv app.log app.log.1; : > app.log
  echo "late $round" >&7; exec 7>> app.log; echo "new $round" >&7
  cat app.log.1
done
cp app.log copy.log; : > app.log; echo after >&7; exec 7>&-
cat app.log; gzip -n app.log.3; mv app.log app.log.1; rm app.log.2; ls; cat app.log.1

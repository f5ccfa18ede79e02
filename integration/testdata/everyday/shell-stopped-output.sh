# What a program that is stopped has written to a new file is there, as far as it came.
sh -c 'echo partial; kill -TERM $$; sleep 5' > out.txt || echo "code $?"
cat out.txt
"$PYTHON" -c 'import os, signal; print("from python", flush=True); os.kill(os.getpid(), signal.SIGINT); input()' > py.txt 2> err.txt || echo "code $?"
cat py.txt; rm err.txt
( echo before; kill -TERM $BASHPID; echo never ) > term.txt || echo "code $?"
cat term.txt
( seq 100000 2> /dev/null || true ) | head -n 3 > head.txt || true
sh -c 'echo a; sh -c "echo b; kill -HUP \$\$"; echo "code $?"' > hup.txt; cat hup.txt head.txt
sh -c '"$PYTHON" -c "import signal; signal.alarm(1); print(1, flush=True); signal.pause()" > alarm.txt; echo "code $?"'
cat alarm.txt
{ echo one; : > begun; sleep 20; } > job.txt & pid=$!
until [ -e begun ]; do sleep 0.01; done
kill -TERM $pid; wait $pid || echo "code $?"
until grep one job.txt 2> /dev/null; do sleep 0.01; done
echo more >> out.txt; sh -c 'echo over > py.txt'; cat py.txt; rm *.txt

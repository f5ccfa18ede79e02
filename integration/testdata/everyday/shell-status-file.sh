# A background job reports its progress into a file that the script reads all the time.
# chance
echo waiting > status
( for i in 1 2 3 4 5 6 7 8 9 10; do echo "step $i" > status; sh -c 'echo tick >> ticks'; done; echo finished > status ) &
until grep -q finished status; do cat status > last; done
wait; cat status ticks
echo idle > status; rm last
( for i in 1 2 3 4 5; do echo "step $i" > t; mv t status; done; echo finished > t; mv t status ) &
until grep -q finished status; do x=$(cat status); done; wait
echo idle > status; : > ticks; cat status

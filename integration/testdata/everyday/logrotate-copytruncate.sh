# A log is copied and truncated while its writer has it open.
sh -c 'sh -c "for i in 1 2 3; do echo line \$i; done >> app.txt"'
cat app.txt
exec 7>> app.txt
for round in 1 2 3; do
  echo "open $round" >&7; sh -c 'sh -c "echo below >> app.txt; true"'
  cat app.txt; cp app.txt app.txt.$round; truncate -s 0 app.txt; : > app.txt
  echo "after $round" >&7; cat app.txt
done
exec 7>&-; cat app.txt.*; echo end > app.txt

# A database is filled, dumped, restored and reported on.
# needs: sqlite3
# varies: .*\.db
sqlite3 t.db 'create table t(x integer, y text)'
for i in 1 2 3; do
  sqlite3 t.db "insert into t values ($i, 'row $i')"
  sqlite3 -csv t.db 'select * from t' > report.csv; cat report.csv
  sh -c "sh -c 'sqlite3 t.db \"update t set y = y || \\\"!\\\" where x = $i\" 2> /dev/null; sed -i s/row/line/ report.csv; true'; true"
  x=$(cat report.csv); echo "$x" > report.csv
  sqlite3 t.db .dump > dump.sql; rm -f copy.db; sqlite3 copy.db < dump.sql; sqlite3 copy.db 'select count(*) from t'
  sqlite3 t.db "vacuum into 'v.db'"; mv v.db copy.db; sqlite3 copy.db 'select sum(x) from t'
  cp copy.db t.db
done
cat report.csv; rm copy.db dump.sql

# Keys and certificates are made and renewed over old ones, and a file is encrypted in place.
# needs: openssl
# varies: key\.pem|cert\.pem|.*\.enc
for i in 1 2; do
  [ $i = 1 ] || cat key.pem cert.pem > "$OUT/old"
  openssl ecparam -genkey -name prime256v1 -noout -out key.pem
  chmod 600 key.pem
  openssl req -new -x509 -key key.pem -subj /CN=test -days 10 -out cert.pem 2> /dev/null
  cat key.pem cert.pem > both.pem; sh -c 'sh -c "openssl x509 -noout -subject -in cert.pem"'
  echo secret > plain.txt; cat plain.txt
  openssl enc -aes-256-cbc -pbkdf2 -pass pass:x -in plain.txt -out plain.enc; rm plain.txt
  openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:x -in plain.enc -out plain.txt; cat plain.txt
  sh -c "sh -c 'echo more >> plain.txt; true'"; echo over > plain.txt
done
rm both.pem; shred -u plain.txt; ls

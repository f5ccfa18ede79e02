# What cargo does with its target directory: fingerprints, a build script, outputs linked hard into place.
# needs: gcc
# varies: target/.*/(main|deps/.*)
mkdir -p src target/debug/deps target/debug/.fingerprint
printf '#include <stdio.h>\n#include "../target/debug/generated.h"\nint main(void) { puts(TEXT); return 0; }\n' > src/main.c
cat > build.sh <<'E'
new="#define TEXT \"$(cat version)\""
[ "$(cat target/debug/generated.h 2> /dev/null)" = "$new" ] || echo "$new" > target/debug/generated.h
E
for v in 1 1 2 3; do
  echo "version $v" > version
  bash -c 'sh build.sh; true'
  print=$(cat src/main.c target/debug/generated.h | sha256sum)
  if [ "$(cat target/debug/.fingerprint/main 2> /dev/null || true)" != "$print" ]; then
    gcc -o target/debug/deps/main-1234 src/main.c
    ln -f target/debug/deps/main-1234 target/debug/main
    echo "$print" > target/debug/.fingerprint/main.tmp; mv target/debug/.fingerprint/main.tmp target/debug/.fingerprint/main
  fi
  ./target/debug/main
done
echo '#define TEXT "by hand"' > target/debug/generated.h; rm -rf target/debug/deps; cat target/debug/generated.h

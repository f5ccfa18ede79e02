# A program reads a file, has shells change it, reads and writes it again.
"$PYTHON" - <<'E'
import os, subprocess
def sh(c): subprocess.run(c, shell=True, check=True)
open("f", "w").write("0")
for i in range(3):
    n = int(open("f").read())
    sh(f"bash -c \"bash -c 'sh -c \\\"echo {n + 1} > f; true\\\"; true'; true\"; true")
    n = int(open("f").read()); open("f", "w").write(str(n + 1))
    sh("sh -c \"awk '{print \\$1 + 1}' f > t; mv t f; true\"; true"); n += 1
    open("f", "w").write(str(n + 1))
    sh("sed -i s/$/0/ f; true"); os.replace("f", "g"); sh("cp g f; echo 7 > g"); os.unlink("g")
    open("f", "r+").write("1"); n = int(open("f").read())
    with open("t", "w") as t: t.write(str(n % 100))
    os.rename("t", "f")
print(open("f").read()); sh("rm f")
E
ls -A

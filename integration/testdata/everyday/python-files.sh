# What the library does with files: temporary files, copies, configuration, archives, rotated logs.
"$PYTHON" - <<'E'
import configparser, fileinput, json, logging.handlers, os, pathlib, shutil, subprocess, tempfile, zipfile
p = pathlib.Path("f"); p.write_text("one\n")
for i in range(3):
    shutil.copy2("f", "f.bak"); p.write_text(p.read_text() + f"{i}\n"); subprocess.run("sh -c 'sed -i s/one/two/ f; true'; true", shell=True)
    print(p.read_text().split()); shutil.move("f.bak", "f"); shutil.copyfile("f", "g"); shutil.copyfile("g", "f")
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as t: t.write(p.read_text())
    os.replace(t.name, "f"); os.chmod("f", 0o644)
    for line in fileinput.input("f", inplace=True): print(line.replace("one", "one " + str(i)), end="")
    c = configparser.ConfigParser(); c.read("c.ini"); c["s"] = {"i": str(i)}
    with open("c.ini", "w") as f: c.write(f)
    with zipfile.ZipFile("z.zip", "a") as z: z.writestr(zipfile.ZipInfo(f"{i}"), "x")
    zipfile.ZipFile("z.zip").extractall("z"); json.dump(sorted(os.listdir("z")), open("l.json", "w"))
h = logging.handlers.RotatingFileHandler("r.txt", maxBytes=60, backupCount=2)
log = logging.getLogger(); log.addHandler(h)
for i in range(12): log.warning("a line of the log %d", i); open("r.txt").read()
shutil.rmtree("z"); p.unlink(); p.write_text("end\n"); p.rename("h"); print(sorted(os.listdir(".")))
E
cat r.txt r.txt.1 c.ini l.json; rm r.txt*

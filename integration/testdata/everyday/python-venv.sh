# A package is built, installed into a virtual environment's directory by copying, compiled, tested and changed.
# varies: .*\.pyc
mkdir -p pkg site; printf 'def f():\n    return 1\n' > pkg/m.py; : > pkg/__init__.py
printf 'import unittest, pkg.m\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(pkg.m.f(), int(open("want").read()))\n        open("want", "a").write("\\n")\n' > test_m.py
unset PYTHONDONTWRITEBYTECODE
for i in 1 2 3; do
  echo "$i" > want; sed -i "s/return .*/return $i/" pkg/m.py; touch -d "2020-01-0$i" pkg/m.py
  "$PYTHON" -m unittest -q test_m 2>&1 | tail -n 1; cat want
  "$PYTHON" -m compileall -q -f pkg; cp -r pkg site/; "$PYTHON" -c 'import sys; sys.path.insert(0, "site"); import pkg.m; print(pkg.m.f())'
  sh -c "sh -c 'echo \"# by tool\" >> pkg/m.py; true'; true"; "$PYTHON" -m py_compile pkg/m.py; sed -i '/by tool/d' pkg/m.py
  "$PYTHON" -m zipfile -c app.zip pkg/ ; PYTHONPATH=app.zip "$PYTHON" -c 'import pkg.m'; rm app.zip
done
rm -rf site pkg/__pycache__ __pycache__; ls

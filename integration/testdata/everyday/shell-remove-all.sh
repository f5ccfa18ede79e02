# Everything is removed after children of children have changed what the script has read.
mkdir -p d/e/f; for n in 1 2 3; do echo $n > d/$n; echo $n > d/e/$n; echo $n > d/e/f/$n; done
cat d/* d/e/* d/e/f/* 2> /dev/null || true
bash -c 'bash -c "bash -c \"find d -type f | xargs sed -i s/1/one/; true\"; true"; true'
rm d/1; rm -f d/2 d/none; bash -c 'bash -c "echo 3 > d/3; true"; true'; rm d/3
rm -r d/e/f; mkdir d/e/f; cat d/e/1; sh -c 'sh -c "echo new > d/e/1; mv d/e/2 d/e/f/2; echo x >> d/e/f/2"'
rm -rf d/e; ls -A d; rmdir d
mkdir d; for n in 1 2 3; do (echo $n > d/$n; cat d/$n > /dev/null; echo more >> d/$n) & done; wait
cat d/*; rm -rf d; mkdir d; echo 1 > d/1; rm -rf d; ls -A

# emacs in a script: backups, a shell command, two saves.
# needs: emacs
printf 'one\ntwo\n' > f
for i in 1 2; do
  cat f
  emacs --batch -Q --eval '(progn (find-file "f") (goto-char (point-max)) (insert "x\n") (save-buffer) (insert "y\n") (save-buffer))' 2> /dev/null
  cat f; sh -c 'sh -c "sed -i 1d f; true"; true'; x=$(cat f); echo "$x" > f
done
emacs --batch -Q --eval '(progn (find-file "f") (call-process-shell-command "cat f > g; echo z >> g") (insert-file-contents "g" nil nil nil t) (let ((make-backup-files nil)) (save-buffer)))' 2> /dev/null
cat f; rm -f f~; echo end > f; rm g

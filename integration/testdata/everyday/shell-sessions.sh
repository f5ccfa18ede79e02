# Children that leave the session or the process group are children all the same.
echo start > status; cat status
setsid --wait sh -c 'sh -c "echo setsid > status; true"; true'; cat status
echo mine > status
nohup sh -c 'sh -c "echo nohup > status; true"' > /dev/null 2>&1; cat status
echo mine > status
env -i PATH="$PATH" sh -c 'nice sh -c "echo env > status; true"'; echo mine >> status; cat status
timeout 20 sh -c 'timeout 20 sh -c "sed -i s/mine/ours/ status; true"; true'; echo again > status
cat status; echo end > status

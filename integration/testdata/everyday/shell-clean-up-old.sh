# Old files are removed by age and number, after all have been read.
mkdir backups
for i in 1 2 3 4 5 6; do echo "backup $i" > backups/$i.txt; touch -d "2020-01-0$i" backups/$i.txt; done
cat backups/*
sh -c 'sh -c "for f in backups/*; do gzip -n \$f; done; true"'
ls backups
find backups -name '*.gz' ! -newermt 2020-01-02 -delete
ls -t backups | tail -n +4 | sed s,^,backups/, | xargs rm -f
zcat backups/*; gunzip backups/6.txt.gz; cat backups/6.txt; echo new > backups/6.txt; ls backups; rm -rf backups/*; rmdir backups

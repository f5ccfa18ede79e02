# perl reads and writes what its children change.
# needs: perl
perl - <<'E'
use strict; use warnings; use autodie;
sub get { open my $f, '<', 'f'; local $/; my $x = <$f>; close $f; chomp $x; return $x }
sub put { open my $f, '>', 'f'; print $f "$_[0]\n"; close $f }
put 0;
for my $i (1 .. 3) {
  put get() + 1;
  system(q{sh -c "sh -c 'sed -i s/^/1/ f; true'; true"}) == 0 or die;
  put get() + 1;
  my $x = `cat f`; chomp $x; open my $t, '>', 't'; print $t $x + 1, "\n"; close $t; rename 't', 'f';
  open my $p, '|-', 'sh -c "cat >> f"'; print $p "line\n"; close $p;
  open my $u, '+<', 'f'; my @l = <$u>; seek $u, 0, 0; truncate $u, 0; print $u $l[0]; close $u;
  system('cp f g; echo x > f') == 0 or die; unlink 'f'; rename 'g', 'f';
}
print get(), "\n"; put 'end';
E
cat f; perl -i.orig -pe 's/end/END/' f; cat f f.orig; mv f.orig f

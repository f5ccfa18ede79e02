use strict;
use warnings;

my ($path, $increments, $mode) = @ARGV;
$| = 1;
print "ready\n";
my $start = <STDIN>;

sub increment {
    open(my $in, "<", $path) or die "open to read: $!\n";
    my $text = do { local $/; <$in> };
    close($in);
    defined $text && $text =~ s/(\d+)/$1 + 1/e or die "no number in the counter\n";
    select(undef, undef, undef, 0.001); # what a program does with what it has read
    open(my $out, ">", $path) or die "open to write: $!\n";
    print $out $text;
    close($out) or die "close: $!\n";
}

for (1 .. $increments) {
    while (1) {
        if (eval { increment(); 1 }) { print "ok\n"; last }
        print $@;
        last if $mode ne "retry";
        select(undef, undef, undef, rand() / 50);
    }
}

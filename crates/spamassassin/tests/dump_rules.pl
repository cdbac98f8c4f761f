#!/usr/bin/perl
# Prints the rules that an installed SpamAssassin loads, one JSON object a line.
# usage: dump_rules.pl RULES_DIR SITE_DIR
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP;
use Mail::SpamAssassin;

my ($rules, $site) = @ARGV;
my $sa = Mail::SpamAssassin->new({
    rules_filename => $rules, site_rules_filename => $site,
    userprefs_filename => '/nonexistent/prefs', dont_copy_prefs => 1,
    # It makes this folder.
    userstate_dir => tempdir(CLEANUP => 1), local_tests_only => 1, debug => 0,
    post_config_text => "allow_user_rules 1\nuse_bayes 0\n",
    LOCAL_STATE_DIR => '/nonexistent', LOCAL_RULES_DIR => $site, DEF_RULES_DIR => $rules,
});
$sa->init(1);
my $conf = $sa->{conf};
my $json = JSON::PP->new->canonical->ascii;
for my $name (sort keys %{ $conf->{test_types} }) {
    my $mime = ($conf->{mimeheader_tests} || {})->{$name};
    my %rule = (
        rule => $name, type => 0 + $conf->{test_types}{$name},
        priority => 0 + $conf->{priority}{$name},
        scores => [ map { 0 + ($conf->{scoreset}[$_]{$name} // 0) } 0 .. 3 ],
        tflags => $conf->{tflags}{$name} // '',
        describe => $conf->{descriptions}{$name} // '',
    );
    $rule{text} = $conf->{tests}{$name} if defined $conf->{tests}{$name};
    $rule{re} = "$conf->{test_qrs}{$name}" if defined $conf->{test_qrs}{$name};
    $rule{re} = "$mime->{pattern}" if $mime;
    $rule{header} = $conf->{test_opt_header}{$name} // ($mime ? $mime->{hdr} : undef);
    $rule{negated} = $conf->{test_opt_neg}{$name} || ($mime && $mime->{negated}) ? 1 : 0;
    $rule{unset} = $conf->{test_opt_unset}{$name};
    print $json->encode(\%rule), "\n";
}

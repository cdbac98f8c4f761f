//! Every format, with a list that was composed for it.

use gauntlet_urlfilter::formats::{Format, detect};
use gauntlet_urlfilter::problem::{Problems, Severity};
use gauntlet_urlfilter::sources;
use gauntlet_urlfilter::{Origin, compile};

use crate::common::{Folder, found, read};

fn kinds(problems: &Problems) -> Vec<String> {
    let line = |((severity, what), count): (&(Severity, String), &u64)| {
        format!("{} {what}: {count}", severity.name())
    };
    problems.counts.iter().map(line).collect()
}

#[test]
fn plain() {
    let (entries, problems) = read(
        Format::Plain,
        "# hosts, domains and URLs\nevil.example\n=only.example\n*.wild.example # all below\n\
         http://Bad.Example:80/a/../login?x#frag\nhost.example:8080\nhost.example/%7Euser\n\
         192.0.2.7\n2001:db8::7\nb\u{fc}cher.example\n\n; nothing\nnot a host\nhttp://\n",
    );
    assert_eq!(
        entries,
        [
            "2: domain evil.example",
            "3: host only.example",
            "4: domain wild.example",
            "5: prefix bad.example/login?x|",
            "6: prefix host.example:8080/|",
            "7: prefix host.example/~user|",
            "8: host 192.0.2.7",
            "9: host [2001:db8::7]",
            "10: domain xn--bcher-kva.example",
        ]
    );
    assert_eq!(kinds(&problems), ["bad no URL: 1", "bad no host name: 1"]);
    let first = problems.shown[0].to_string();
    assert_eq!(
        first,
        "list:13: bad: no host name: \"not a host\"; write a host name or an address, without \
         scheme, port and path"
    );
}

#[test]
fn hosts_files() {
    let (entries, problems) = read(
        Format::Hosts,
        "127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback\n0.0.0.0 0.0.0.0\n\
         0.0.0.0 ads.example track.example # both\n:: six.example\n127.0.0.1\tTab.Example\r\n\
         140.0.2.1 mapped.example\n0.0.0.0\nads.example\n0.0.0.0 a_b.example -/x\n",
    );
    assert_eq!(
        entries,
        [
            "4: host ads.example",
            "4: host track.example",
            "5: host six.example",
            "6: host tab.example",
            "10: host a_b.example",
        ]
    );
    assert_eq!(
        kinds(&problems),
        [
            "skipped a host at another address: 1",
            "bad no address first: 1",
            "bad no host behind the address: 1",
            "bad no host name: 1",
        ]
    );
}

#[test]
fn adblock() {
    let (entries, problems) = read(
        Format::AdBlock,
        "[Adblock Plus 2.0]\n! Title: composed\n||ads.example^\n||ads.example/banner/\n\
         @@||good.ads.example^$document\n|https://start.example/x|\n||cdn.example/a.js$third-party\n\
         /ad[0-9]+\\.gif/\nbare.example\n||port.example:8080^\nhttp://old.example/page^\n\
         example.com##.ad\n||typed.example^$script,image\n||page.example^$domain=a.example\n\
         /banner/*/img\n||wild.example/*/x\n-ad-\n||adserv\n|http://half\n||x.example^$~third-party\n",
    );
    assert_eq!(
        entries,
        [
            "3: domain ads.example",
            "4: prefix *.ads.example/banner/",
            "5: !domain good.ads.example",
            "6: prefix start.example/x|",
            "7: prefix *.cdn.example/a.js",
            "8: regex (?i)ad[0-9]+\\.gif",
            "9: domain bare.example",
            "10: prefix *.port.example:8080/|",
            "11: prefix old.example/page|",
            "20: domain x.example",
        ]
    );
    assert_eq!(
        kinds(&problems),
        [
            "skipped a pattern without a host: 2",
            "skipped a rule for elements of pages: 1",
            "skipped a wildcard inside: 1",
            "skipped option $domain: 1",
            "skipped option $script: 1",
            "skipped the beginning of a host: 2",
        ]
    );
}

#[test]
fn squid() {
    let (entries, problems) =
        read(Format::SquidDomains, "# acl\n-n\n.all.example\none.example # 1\n192.0.2.1\n.\n");
    assert_eq!(entries, ["3: domain all.example", "4: host one.example", "5: host 192.0.2.1"]);
    assert_eq!(problems.total(), 1);
    let (entries, problems) =
        read(Format::SquidRegexes, "#\n^http://a\\.example/\n-i\nSex\n+i x.*y\n(?=no)\n");
    assert_eq!(entries, ["2: regex ^http://a\\.example/", "4: regex (?i)Sex", "5: regex x.*y"]);
    assert_eq!(kinds(&problems), ["bad no regular expression: 1"]);
}

#[test]
fn squidguard_folders() {
    let folder = Folder::new();
    folder.write("lists/adult/domains", "adult.example\n192.0.2.9\nno host here\n");
    folder.write("lists/adult/urls", "www.site.example/Gallery\nhttp://host.example:81/~bad\n");
    folder.write("lists/adult/expressions", "(^|[-.?+=/_0-9])casino\n");
    folder.write("lists/social/networks/domains", "+friends.example\n-gone.example\n");
    folder.write("lists/adult/usage", "black");
    let found_sources = sources::collect(&folder.path().join("lists"), None, None).unwrap();
    let names: Vec<&str> = found_sources.files.iter().map(|s| s.category.as_str()).collect();
    assert_eq!(names, ["adult", "adult", "adult", "social/networks"]);
    assert_eq!(found_sources.ignored, [folder.path().join("lists/adult/usage")]);
    let out = folder.path().join("all.urls");
    let (built, report) = compile(&found_sources.files, &out).unwrap();
    assert_eq!((built.entries, built.regexes, built.categories), (6, 1, 2));
    assert_eq!(
        kinds(&report.problems),
        ["skipped an entry to take away: 1", "bad more than an entry: 1",]
    );
    let lists = super::look_up::open(&out);
    for (url, expected) in [
        ("http://adult.example/", Some("adult domain adult.example")),
        ("https://www.deep.adult.example/x", Some("adult domain adult.example")),
        ("http://notadult.example/", None),
        ("http://192.0.2.9/", Some("adult host 192.0.2.9")),
        // Any case, any port, with and without a server's name; the path begins so.
        ("http://site.example/gallery", Some("adult prefix site.example/gallery")),
        ("http://www2.site.example:8080/GALLERY17", Some("adult prefix site.example/gallery")),
        ("http://img.site.example/gallery", None),
        ("http://site.example/", None),
        ("http://host.example/~bad/page", Some("adult prefix host.example/~bad")),
        ("http://x.example/Casino", Some("adult regex (?i)(^|[-.?+=/_0-9])casino")),
        ("http://friends.example/", Some("social/networks domain friends.example")),
        ("http://gone.example/", None),
    ] {
        assert_eq!(found(&lists, url).as_deref(), expected, "{url}");
    }
}

#[test]
fn response_policy_zones() {
    let (entries, problems) = read(
        Format::Rpz,
        "$TTL 300\n@ IN SOA localhost. root.localhost. (\n  1 ; serial\n  3600 900 604800 300 )\n\
         \x20 IN NS localhost.\nevil.example CNAME .\n*.evil.example 60 IN CNAME .\n\
         Good.evil.example CNAME rpz-passthru.\nnodata.example CNAME *.\n\
         page.example A 192.0.2.1\n\x20 AAAA 2001:db8::1\n32.1.2.0.192.rpz-ip CNAME .\n\
         tcp.example CNAME rpz-tcp-only.\n$ORIGIN rpz.local.\nfull.example.rpz.local. CNAME .\n",
    );
    assert_eq!(
        entries,
        [
            "6: host evil.example",
            "7: below evil.example",
            "8: !host good.evil.example",
            "9: host nodata.example",
            "10: host page.example",
            "11: host page.example",
            "15: host full.example",
        ]
    );
    assert_eq!(
        kinds(&problems),
        ["skipped a trigger on addresses or name servers: 1", "skipped the action rpz-tcp-only: 1",]
    );
}

#[test]
fn csv() {
    let (entries, problems) = read(
        Format::Csv,
        "# id,dateadded,url,threat\n\"1\",\"2026-01-01\",\"http://a.example/x,y\",\"malware\"\n\
         2,x,b.example,\"phishing; spam\"\n3,x,,none\n4,x,\"open\n5,x,c.example,\n",
    );
    assert_eq!(
        entries,
        [
            "2: prefix a.example/x,y| = malware",
            "3: domain b.example = phishing",
            "3: domain b.example = spam",
            "6: domain c.example",
        ]
    );
    assert_eq!(
        kinds(&problems),
        ["bad no URL in its column: 1", "bad quotes that do not close: 1"]
    );
    let (entries, _) = read(Format::Csv, "a.example,news\n=b.example,\"say \"\"x\"\"\"\n");
    assert_eq!(entries, ["1: domain a.example = news", "2: host b.example = say \"x\""]);
}

#[test]
fn formats_are_found_by_first_lines() {
    for (file, text, expected) in [
        ("x", "# comment\nevil.example\nhttp://a.example/\n", Format::Plain),
        ("x", "", Format::Plain),
        (
            "x",
            "# StevenB\n127.0.0.1 localhost\n0.0.0.0 a.example\n0.0.0.0 b.example\n",
            Format::Hosts,
        ),
        ("x", "! t\n||a.example^\n", Format::AdBlock),
        ("x", "[Adblock Plus 2.0]\nx\n", Format::AdBlock),
        ("x", ".a.example\n.b.example\nc.example\n", Format::SquidDomains),
        ("x.acl", "# ours\n.a.example\nb.example\nc.example\n", Format::SquidDomains),
        ("x", ".a.example\nb.example\nc.example\n", Format::Plain),
        ("x.acl", "a.example\n", Format::Plain),
        ("x.acl", "^http://a[.]example/\n", Format::SquidRegexes),
        ("x", "^http://a\n\\.exe$\n", Format::SquidRegexes),
        ("x", "(^|/)ads/\nbanner[0-9]+\na.example\n", Format::SquidRegexes),
        ("x", "a.example/b(c)\n[::1]\nb.example\n", Format::Plain),
        ("x", "$TTL 60\n@ SOA x y 1 2 3 4 5\n", Format::Rpz),
        ("x", "a.example CNAME .\n", Format::Rpz),
        ("x", "a.example,news\nb.example,ads\n", Format::Csv),
        ("x", "url,category\n", Format::Csv),
        ("a/domains", "0.0.0.0 x.example\n", Format::Domains),
        ("a/urls", "x", Format::Urls),
        ("expressions", "x", Format::Expressions),
    ] {
        assert_eq!(detect(file, text.as_bytes()).format, expected, "{text:?}");
    }
    for format in Format::ALL {
        assert_eq!(Format::named(format.name()), Some(format));
    }
}

#[test]
fn exceptions_undo_their_own_list_and_third_parties_need_an_origin() {
    let folder = Folder::new();
    let lists = folder.lists(
        Format::AdBlock,
        "||ads.example^\n@@||ads.example/ok/\n||ads.example/ok/no$important\n||t.example^$3p\n",
    );
    assert_eq!(found(&lists, "http://ads.example/").as_deref(), Some("bad domain ads.example"));
    assert_eq!(found(&lists, "http://ads.example/ok/"), None);
    let important = found(&lists, "http://ads.example/ok/no");
    assert_eq!(important.as_deref(), Some("bad prefix [*.]ads.example/ok/no"));
    let url = gauntlet_mail::url::canonical("http://ads.example/ok/").unwrap();
    let matches = lists.look_up(&url);
    let undone = matches.all().iter().find(|m| !m.is_exception).unwrap();
    assert_eq!(
        matches.undone_by(undone).unwrap().pattern.to_string(),
        "prefix [*.]ads.example/ok/"
    );
    let url = gauntlet_mail::url::canonical("http://t.example/").unwrap();
    assert!(lists.look_up(&url).is_empty());
    assert!(lists.look_up_from(&url, Origin::SameSite).is_empty());
    assert!(lists.look_up_from(&url, Origin::OtherSite).first().is_some());
}

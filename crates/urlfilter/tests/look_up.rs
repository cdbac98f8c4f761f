//! Look-ups against the reference, over entries and URLs of few letters, so that many meet.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use gauntlet_mail::url::canonical;
use gauntlet_urlfilter::entry::Entry;
use gauntlet_urlfilter::formats::{Format, Reader};
use gauntlet_urlfilter::{Role, UrlList, UrlLists};

use crate::common::{Folder, Numbers, found};
use crate::reference;

pub(crate) fn open(path: &Path) -> UrlLists {
    UrlLists::new(vec![Arc::new(UrlList::open(path, "list", Role::Match).unwrap())])
}

fn host(numbers: &mut Numbers) -> String {
    let labels = ["a", "b", "www", "www2", "ftp", "aa", "x-y"];
    let mut host = String::new();
    for _ in 0..numbers.below(4) {
        let _ = write!(host, "{}.", numbers.of(&labels));
    }
    match numbers.below(12) {
        0 => "192.0.2.1".to_owned(),
        1 => "[2001:db8::1]".to_owned(),
        2 => format!("{host}co.uk"),
        _ => format!("{host}{}", numbers.of(&["example", "b.example", "test"])),
    }
}

fn path(numbers: &mut Numbers) -> String {
    let pieces = ["/", "/a", "/A", "/ab", "b", "?", "?x=1", "&y", "%20", "/c/d", "=", ".html"];
    let mut path = "/".to_owned();
    for _ in 0..numbers.below(5) {
        path.push_str(pieces[numbers.below(pieces.len())]);
    }
    if numbers.below(20) == 0 {
        path.push_str(&"long".repeat(60 + numbers.below(10)));
    }
    path
}

fn line(numbers: &mut Numbers, format: Format) -> String {
    let (host, path) = (host(numbers), path(numbers));
    let port = if numbers.below(8) == 0 { ":81" } else { "" };
    match (format, numbers.below(4)) {
        (Format::AdBlock, 0) => format!("||{host}^"),
        (Format::AdBlock, 1) => format!("||{host}{path}"),
        (Format::AdBlock, 2) => format!("||{host}{path}^$match-case"),
        (Format::AdBlock, _) => format!("|http://{host}{port}{path}|"),
        (Format::Rpz, 0) => format!("*.{host} CNAME ."),
        (Format::Rpz, _) => format!("{host} CNAME ."),
        (Format::Urls, _) => format!("{host}{path}"),
        (Format::SquidRegexes, _) => format!("^http://{}[^/]*/", &host[..1].replace('[', "x")),
        (_, 0) => format!("={host}"),
        (_, 1) => host,
        _ => format!("http://{host}{port}{path}"),
    }
}

#[test]
fn look_ups_find_what_the_reference_finds() {
    let mut numbers = Numbers(20_261_125);
    let formats = [Format::Plain, Format::AdBlock, Format::Rpz, Format::Urls, Format::SquidRegexes];
    let (mut hits, mut asked) = (0, 0);
    for round in 0..40 {
        let format = formats[round % formats.len()];
        let lines = if format == Format::SquidRegexes { 8 } else { 1 + numbers.below(300) };
        let text: String = (0..lines).map(|_| line(&mut numbers, format) + "\n").collect();
        let reader = Reader::new(text.as_bytes(), "list", format);
        let entries: Vec<Entry> = reader.map(Result::unwrap).collect();
        let folder = Folder::new();
        let lists = folder.lists(format, &text);
        for _ in 0..300 {
            let port = if numbers.below(8) == 0 { ":81" } else { "" };
            let asked_for = format!("http://{}{port}{}", host(&mut numbers), path(&mut numbers));
            let url = canonical(&asked_for).unwrap();
            // Doubles are merged: the first line of each pattern is what is found.
            let mut seen = Vec::new();
            let mut expected: Vec<u64> = Vec::new();
            for entry in entries.iter().filter(|entry| reference::matches(entry, &url)) {
                if !seen.contains(&&entry.pattern) {
                    seen.push(&entry.pattern);
                    expected.push(entry.line);
                }
            }
            let matches = lists.look_up(&url);
            let mut lines: Vec<u64> = matches.all().iter().map(|m| u64::from(m.line)).collect();
            lines.sort_unstable();
            assert_eq!(lines, expected, "{} in {format}:\n{text}", url.as_str());
            asked += 1;
            hits += u32::from(!lines.is_empty());
        }
    }
    assert!(hits > asked / 5 && hits < asked * 4 / 5, "{hits} of {asked}: both happen");
}

#[test]
fn the_most_specific_entry_comes_first() {
    let folder = Folder::new();
    let lists = folder.lists(
        Format::Plain,
        "example.com\n=www.example.com\nwww.example.com/a\nwww.example.com/a/b\ncom\n",
    );
    let url = canonical("https://www.example.com/a/b/c").unwrap();
    let found: Vec<String> =
        lists.look_up(&url).all().iter().map(|m| m.pattern.to_string()).collect();
    assert_eq!(
        found,
        [
            "prefix www.example.com/a/b",
            "prefix www.example.com/a",
            "host www.example.com",
            "domain example.com",
            "domain com",
        ]
    );
}

#[test]
fn a_path_is_found_in_every_form_that_servers_take_for_it() {
    let folder = Folder::new();
    let text = "a.example/secret\nhttp://b.example//x%2fy\n";
    let lists = folder.lists(Format::Plain, text);
    for path in [
        "/secret",
        "//secret/x",
        "/.//secret/x",
        "/%2fsecret/x",
        "/a/..%2fsecret/x",
        "/%2e%2fsecret/x",
        "/secret%2Fx",
    ] {
        let found = found(&lists, &format!("http://a.example{path}"));
        assert_eq!(found.as_deref(), Some("bad prefix a.example/secret"), "{path}");
    }
    for path in ["/x/y", "//x%2fy", "/x//y", "/x/y/z"] {
        let found = found(&lists, &format!("http://b.example{path}"));
        assert_eq!(found.as_deref(), Some("bad prefix b.example/x/y"), "{path}");
    }
    for path in ["/", "/a?/secret", "/secret/..%2fx", "/go?to=//secret"] {
        let url = format!("http://a.example{path}");
        // What is written begins with it all the same.
        let expected = path.starts_with("/secret/");
        assert_eq!(found(&lists, &url).is_some(), expected, "{path}");
    }
}

#[test]
fn what_is_written_undoes_nothing_that_is_read_otherwise() {
    let folder = Folder::new();
    let (bad, ..) = folder.compile(Format::Plain, "a.example/secret\n");
    let bad = Arc::new(UrlList::open(&bad, "bad", Role::Match).unwrap());
    let (good, ..) = folder.compile(Format::Plain, "a.example/open\n");
    let good = Arc::new(UrlList::open(&good, "good", Role::Allow).unwrap());
    let lists = UrlLists::new(vec![bad, good]);
    assert!(found(&lists, "http://a.example/open/..%2fsecret").is_some());
    assert_eq!(found(&lists, "http://a.example//open/x"), None);
}

#[test]
fn a_path_is_found_without_parameters_of_its_segments() {
    let folder = Folder::new();
    let lists = folder.lists(Format::Plain, "a.example/secret\nb.example/x;y/z\n");
    for path in ["/;x/secret", "/..;/secret", "/a/..;/secret?q", "/secret;x=1", "/b/;/../secret"] {
        let found = found(&lists, &format!("http://a.example{path}"));
        assert!(found.is_some(), "{path}");
    }
    assert!(found(&lists, "http://b.example/x;y/z/a").is_some());
    assert_eq!(found(&lists, "http://b.example/x/z"), None);
    assert_eq!(found(&lists, "http://a.example/?/;x/secret"), None);
}

#[test]
fn an_allowed_path_is_allowed_as_every_server_reads_it() {
    let folder = Folder::new();
    let (bad, ..) = folder.compile(Format::Plain, "a.example\n");
    let bad = Arc::new(UrlList::open(&bad, "bad", Role::Match).unwrap());
    let (good, ..) = folder.compile(Format::Plain, "a.example/open\na.example/app;v=1/x\n");
    let good = Arc::new(UrlList::open(&good, "good", Role::Allow).unwrap());
    let lists = UrlLists::new(vec![bad, good]);
    for path in ["/open/x", "/open;s=1/x", "//open/x", "/app;v=1/x/y", "/app;v=1/x;z?q"] {
        assert_eq!(found(&lists, &format!("http://a.example{path}")), None, "{path}");
    }
    for path in [
        "/open/..;/secret",
        "/open;/..;/secret",
        "/app;v=1/x/..;/secret",
        "/app;v=1/x/..;/xsecret",
        // `/secret/open` where slashes are not joined.
        "/secret/a//../../open",
    ] {
        assert!(found(&lists, &format!("http://a.example{path}")).is_some(), "{path}");
    }
}

#[test]
fn expressions_are_tried_on_both_paths() {
    let folder = Folder::new();
    let lists = folder.lists(Format::SquidRegexes, "^http://a\\.example/x/\n//y\n");
    assert_eq!(
        found(&lists, "http://a.example//x%2f").as_deref(),
        Some("bad regex ^http://a\\.example/x/")
    );
    assert!(found(&lists, "http://b.example/x//y").is_some());
}

#[test]
fn an_ipv4_address_is_found_within_ipv6_ones() {
    let folder = Folder::new();
    let lists = folder.lists(Format::Plain, "192.0.2.1\n192.0.2.2/x\n[::ffff:192.0.2.3]\n");
    for url in [
        "http://192.0.2.1/",
        "http://[::ffff:192.0.2.1]/",
        "http://[::ffff:c000:201]:81/",
        "http://[64:ff9b::192.0.2.1]/",
        "https://[64:ff9b::c000:201]/a//b",
        "http://[64:ff9b::192.0.2.2]/x/y",
        "http://[2002:c000:201::1]/",
        "http://[2002:c000:202:1::5]/x%5Cy",
        "http://192.0.2.3/",
    ] {
        assert!(found(&lists, url).is_some(), "{url}");
    }
    for url in ["http://[2001:db8::c000:201]/", "http://[64:ff9b::192.0.2.2]/y"] {
        assert_eq!(found(&lists, url), None, "{url}");
    }
}

#[test]
fn evidence_has_list_category_file_and_line() {
    let folder = Folder::new();
    let lists = folder.lists(Format::Plain, "# x\nevil.example\n");
    let url = canonical("http://www.evil.example/").unwrap();
    let matches = lists.look_up(&url);
    let said = matches.first().unwrap().to_string();
    let file = folder.path().join("list");
    assert_eq!(said, format!("list: bad: domain evil.example ({}:2)", file.display()));
}

#[test]
fn an_allow_list_undoes_matches_of_every_list() {
    let folder = Folder::new();
    let (bad, ..) = folder.compile(Format::Plain, "evil.example\n");
    let bad = Arc::new(UrlList::open(&bad, "bad", Role::Match).unwrap());
    let (good, ..) = folder.compile(Format::Plain, "shop.evil.example\n");
    let good = Arc::new(UrlList::open(&good, "good", Role::Allow).unwrap());
    let lists = UrlLists::new(vec![bad, good]);
    assert!(found(&lists, "http://evil.example/").is_some());
    assert_eq!(found(&lists, "http://shop.evil.example/"), None);
}

/// The old file stays mapped for who has the old value, though another has its name.
#[test]
fn a_list_is_replaced_beside_look_ups() {
    let folder = Folder::new();
    let before = folder.lists(Format::Plain, "old.example\n");
    let (out, ..) = folder.compile(Format::Plain, "new.example\nother.example\n");
    let list = UrlList::open(&out, "list", Role::Match).unwrap();
    assert_eq!((list.entries(), list.regexes(), list.categories()), (2, 0, &["bad".into()][..]));
    let after = before.with(Arc::new(list));
    assert_eq!(after.iter().count(), 1);
    for (lists, old) in [(&before, true), (&after, false)] {
        assert_eq!(found(lists, "http://old.example/").is_some(), old);
        assert_eq!(found(lists, "http://new.example/").is_some(), !old);
    }
}

#[test]
fn doubles_are_merged_and_many_entries_of_one_key_are_bounded() {
    let folder = Folder::new();
    let (_, built, _) =
        folder.compile(Format::Plain, &"evil.example\nwww.evil.example\n".repeat(9));
    assert_eq!((built.entries, built.duplicates), (2, 16));
    let many: String = (0..500).map(|n| format!("a.example/x,c{n}\n")).collect();
    let (out, built, _) = folder.compile(Format::Csv, &many);
    assert_eq!((built.entries, built.crowded), (64, 436));
    let url = canonical("http://a.example/x").unwrap();
    assert_eq!(open(&out).look_up(&url).all().len(), 64);
}

//! Real URLs of `$GAUNTLET_CORPUS/urls`, if they are there.

use std::path::PathBuf;

use gauntlet_mail::url::canonical;
use gauntlet_urlfilter::compile;
use gauntlet_urlfilter::formats::Format;
use gauntlet_urlfilter::sources::Source;

use crate::common::Folder;

fn urls(name: &str) -> Option<(PathBuf, String)> {
    let path = PathBuf::from(std::env::var_os("GAUNTLET_CORPUS")?).join("urls").join(name);
    let bytes = std::fs::read(&path).ok()?;
    // A line that is not UTF-8 is a problem of the list, and no URL.
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    Some((path, lines.collect::<Vec<_>>().join("\n")))
}

#[test]
fn suspicious_urls_are_all_found_and_those_of_ham_are_few() {
    let (Some((path, bad)), Some((_, ham))) =
        (urls("suspicious_80k.txt"), urls("ham_urls_from_dev.txt"))
    else {
        eprintln!("no $GAUNTLET_CORPUS/urls: nothing was tried");
        return;
    };
    let folder = Folder::new();
    let out = folder.path().join("list.urls");
    let source = Source { path, format: None, category: "suspicious".into() };
    let (built, report) = compile(&[source], &out).unwrap();
    assert_eq!(report.sources[0].format, Format::Plain);
    let lists = super::look_up::open(&out);
    let count = |text: &str| {
        let all: Vec<_> = text.lines().filter_map(canonical).collect();
        let found = all.iter().filter(|url| lists.look_up(url).first().is_some()).count();
        (found, all.len())
    };
    let (found, all) = count(&bad);
    let (in_ham, all_ham) = count(&ham);
    eprintln!(
        "{} entries, {} doubles, {} problems; {found} of {all} suspicious, {in_ham} of {all_ham} \
         of ham",
        built.entries,
        built.duplicates,
        report.problems.total()
    );
    assert_eq!(found, all);
    assert!(all > 79_000 && in_ham * 100 < all_ham, "{in_ham} of {all_ham}");
}

//! Compiled files that are cut, changed, or something else.

use gauntlet_mail::url::canonical;
use gauntlet_urlfilter::formats::Format;
use gauntlet_urlfilter::sources::Source;
use gauntlet_urlfilter::{OpenError, Role, UrlList, UrlLists};

use crate::common::{Folder, Numbers};
use crate::list_bytes;

const LIST: &str = "evil.example\nhttp://a.example/b?c\nother.example/x\n=host.example\n";

fn compiled() -> Vec<u8> {
    let folder = Folder::new();
    let (out, ..) = folder.compile(Format::Plain, LIST);
    std::fs::read(out).unwrap()
}

fn refused(bytes: &[u8], what: &str) {
    let folder = Folder::new();
    let path = folder.write("bad.urls", bytes);
    let error = UrlList::open(&path, "list", Role::Match).expect_err(what);
    let text = error.to_string();
    assert!(text.contains("compile again") || matches!(error, OpenError::Io { .. }), "{text}");
    assert!(text.contains("bad.urls"), "{text}");
}

#[test]
fn every_truncation_is_refused() {
    let whole = compiled();
    for length in 0..whole.len() {
        refused(&whole[..length], &format!("{length} bytes"));
    }
    let longer = [&whole[..], b"x"].concat();
    refused(&longer, "one byte more");
}

#[test]
fn every_byte_changed_is_refused() {
    let whole = compiled();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&bytes, &format!("byte {at}"));
    }
}

#[test]
fn another_file_is_refused() {
    refused(b"evil.example\n", "a text");
    refused(b"", "nothing");
    let mut newer = compiled();
    newer[8] = 2;
    refused(&newer, "another version");
}

/// Checksums that fit whatever the bytes: then every index is what bounds the reads.
#[test]
fn a_file_that_lies_about_itself_is_read_within_bounds() {
    let whole = compiled();
    let mut numbers = Numbers(7);
    for _ in 0..2_000 {
        let mut bytes = whole.clone();
        for _ in 0..=numbers.below(4) {
            let at = 12 + numbers.below(bytes.len() - 12);
            bytes[at] = numbers.next() as u8;
        }
        list_bytes::ask(&list_bytes::with_checksums(bytes));
    }
}

#[test]
fn what_is_no_text_is_refused_and_not_taken_for_expressions() {
    let folder = Folder::new();
    let mut numbers = Numbers(4);
    let mut random: Vec<u8> = (0..20_000).map(|_| numbers.next() as u8).collect();
    let told = |bytes: &[u8]| {
        let path = folder.write("list.txt", bytes);
        let source = Source { path, format: None, category: String::new() };
        gauntlet_urlfilter::check(&[source]).map(drop).map_err(|error| {
            std::error::Error::source(&error).map_or_else(String::new, |cause| cause.to_string())
        })
    };
    assert_eq!(told(&random), Err("it is no text".to_owned()));
    random[..2].copy_from_slice(b"\x1f\x8b");
    assert!(told(&random).unwrap_err().contains("gunzip"));
    assert_eq!(told(b"evil.example\n\0\x01\x02\nother.example\n"), Ok(()), "a line alone");
    assert_eq!(told("b\u{fc}cher.example\n".as_bytes()), Ok(()));
}

#[test]
fn what_was_there_stays_if_compiling_fails() {
    let folder = Folder::new();
    let lists = folder.lists(Format::Plain, LIST);
    let out = folder.path().join("list.urls");
    let missing =
        Source { path: folder.path().join("missing"), format: None, category: String::new() };
    gauntlet_urlfilter::compile(&[missing], &out).unwrap_err();
    UrlList::open(&out, "list", Role::Match).unwrap();
    assert!(!lists.look_up(&canonical("http://evil.example/").unwrap()).is_empty());
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "no temporary file is left");
}

#[test]
fn a_copy_stays_whole_when_its_file_is_cut_in_place() {
    let folder = Folder::new();
    // More than a page, so that what is cut would be met.
    let lines: String = (0..5_000).map(|n| format!("host-{n}.example\n")).collect();
    let (out, ..) = folder.compile(Format::Plain, &lines);
    let names = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = names();
    let list = UrlList::open_copied(&out, folder.path(), "list", Role::Match).unwrap();
    assert_eq!(names(), before, "the copy has no name");
    // Where no copy can be made, the list is in memory.
    let nowhere = folder.path().join("nowhere");
    let other = UrlList::open_copied(&out, &nowhere, "other", Role::Match).unwrap();
    assert!(other.is_in_memory() && !list.is_in_memory());
    std::fs::File::create(&out).unwrap();
    let lists = UrlLists::new(vec![list.into(), other.into()]);
    for n in 0..5_000 {
        let url = canonical(&format!("http://host-{n}.example/")).unwrap();
        assert_eq!(lists.look_up(&url).all().len(), 2, "{n}");
    }
    let text = folder.write("text", "evil.example\n");
    let error = UrlList::open_copied(&text, folder.path(), "list", Role::Match).unwrap_err();
    assert!(matches!(error, OpenError::NotOurs { .. }));
}

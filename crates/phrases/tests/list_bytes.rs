//! Any bytes as a list and as a page: nothing panics, nothing is lost silently, and where the page
//! is cut makes no difference. The fuzz target `phrase_list` drives the same.

use std::io;
use std::path::Path;
use std::sync::Arc;

use gauntlet_phrases::{
    Count, Form, Lists, PhraseSet, ProblemKind, Reader, Role, Score, ScoreOptions,
};

/// Bytes as a list; a NUL byte begins the page that it is tried on.
pub(crate) fn feed(input: &[u8]) {
    let (list, page) = match input.iter().position(|b| *b == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, input),
    };
    let fetch = |path: &Path| match path.file_name().is_some_and(|name| name == "list") {
        true => Ok(list.to_vec()),
        false => Err(io::ErrorKind::NotFound.into()),
    };
    let mut reader = Reader::new(&fetch);
    reader.read(Path::new("/a/list"), Role::Banned);
    let lists = reader.finish();
    every_line_is_accounted_for(&lists);
    let Ok(set) = PhraseSet::compile(&lists) else { return };
    let set = Arc::new(set);
    let page = String::from_utf8_lossy(page);
    for form in [Form::Html, Form::Plain] {
        for count in [Count::Once, Count::Every] {
            let options = ScoreOptions { limit: 50, count };
            let whole = set.score(&page, form, &options);
            assert_eq!(whole, cut(&set, &page, form, &options), "cuts make a difference");
            assert!(!whole.what_would_change_it().is_empty());
        }
    }
}

fn every_line_is_accounted_for(lists: &Lists) {
    let not_read: u64 = lists.files.iter().map(|file| file.not_read).sum();
    let of_files = lists.problems.kept.iter().filter(|p| p.line == 0 && !p.kind.is_note()).count();
    let is_full = lists.problems.kept.iter().any(|p| matches!(p.kind, ProblemKind::Limit(_)));
    if !is_full && lists.problems.kept.len() < 1_000 {
        assert_eq!(lists.problems.not_read, not_read + of_files as u64);
    }
    let phrases: u64 = lists.files.iter().map(|file| file.phrases).sum();
    assert!(lists.entries.len() as u64 <= phrases);
}

fn cut(set: &Arc<PhraseSet>, page: &str, form: Form, options: &ScoreOptions) -> Score {
    let mut scanner = set.scanner(form);
    let mut rest = page;
    let mut step = 1;
    while !rest.is_empty() {
        let at = (step..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (piece, left) = rest.split_at(at);
        scanner.push(piece);
        (rest, step) = (left, step % 7 + 1);
    }
    scanner.finish(options)
}

#[test]
fn nasty_lists_and_pages() {
    let lists: [&[u8]; 12] = [
        b"",
        b"<",
        b">",
        b"<>",
        b"<><>",
        b"<a><b><c><d><5>",
        b".Include<list>",
        b".Include<../a/list>\n<x>",
        b"\xff\xfe<\x00a>",
        b"<a>,,,<b>,,<5>,,,",
        b"#listcategory:\"",
        b"<%><%>\n<a><%>\n<a><-%>\n<a><--5>",
    ];
    let pages: [&[u8]; 9] = [
        b"a b",
        b"<a><b",
        b"&amp;&&#97;&#x110000;&#0;&unknown;&a",
        b"<!--",
        b"<!",
        b"</",
        b"<script><a></script",
        b"<a href='a>b",
        b"\xf0\x9f\x98\x80\xff a",
    ];
    for list in lists {
        feed(list);
        for page in pages {
            feed(&[list, b"\0", page].concat());
            feed(&[b"<a><5>\n< b >\n<&a><7>", &b"\0"[..], page].concat());
        }
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..3_000 {
        let bytes: Vec<u8> = (0..60)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                b"<>,-5%#.ab \n\0&;/!-='\xc3\xa9"[(seed % 22) as usize]
            })
            .collect();
        feed(&bytes);
    }
}

//! Lists as people write them, and as they break.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use gauntlet_phrases::limits::{INCLUDE_DEPTH_MAX, PHRASE_BYTES_MAX, PROBLEMS_KEPT_MAX};
use gauntlet_phrases::{Kind, Lists, ProblemKind, Reader, Role, Weight};

/// Reads these files; the first is the list.
pub(crate) fn read(files: &[(&str, &[u8])], role: Role) -> Lists {
    let all: HashMap<PathBuf, Vec<u8>> =
        files.iter().map(|(name, bytes)| (PathBuf::from(name), bytes.to_vec())).collect();
    let fetch = |path: &Path| all.get(path).cloned().ok_or(io::ErrorKind::NotFound.into());
    let mut reader = Reader::new(&fetch);
    if let Some((first, _)) = files.first() {
        reader.read(Path::new(first), role);
    }
    reader.finish()
}

pub(crate) fn list(text: &str) -> Lists {
    read(&[("list", text.as_bytes())], Role::Banned)
}

fn kinds(lists: &Lists) -> Vec<(u32, ProblemKind)> {
    lists.problems.kept.iter().map(|p| (p.line, p.kind.clone())).collect()
}

#[test]
fn weights_categories_and_places() {
    let lists = list("# c\n#listcategory: \"Gambling\"\n< Bet ><50>\n<b>,<A><-20>\n<x>\n");
    assert_eq!(lists.problems.not_read, 0);
    assert_eq!(lists.categories, ["", "Gambling"]);
    let entries: Vec<_> =
        lists.entries.iter().map(|e| (e.parts.join("+"), e.kind, e.category, e.line)).collect();
    let points = |n| Kind::Weighted(Weight::Points(n));
    let expected = [
        (" bet ".to_owned(), points(50), 1, 3),
        ("a+b".to_owned(), points(-20), 1, 4),
        ("x".to_owned(), Kind::Banned, 1, 5),
    ];
    assert_eq!(entries, expected);
    let lists = read(&[("exceptionphraselist", b"<x>")], Role::Exception);
    assert_eq!(lists.entries[0].kind, Kind::Exception);
}

#[test]
fn included_files_inherit_role_and_category() {
    let main = b"#listcategory: \"A\"\n.Include<sub/one>\n.Include</abs/two>\n.Include<no>\n<m>\n";
    let files: [(&str, &[u8]); 4] = [
        ("/etc/lists/main", main),
        ("/etc/lists/sub/one", b"<one>\n#listcategory: \"B\"\n.Include<more>\n<one b>\n"),
        ("/etc/lists/sub/more", b"<more>\n"),
        ("/abs/two", b"<two>\r\n"),
    ];
    let lists = read(&files, Role::Exception);
    let all: Vec<_> = lists
        .entries
        .iter()
        .map(|e| {
            let category = lists.categories[e.category as usize].as_str();
            (e.parts[0].as_str(), category, lists.files[e.file as usize].path.as_str())
        })
        .collect();
    let expected = [
        ("one", "A", "/etc/lists/sub/one"),
        ("more", "B", "/etc/lists/sub/more"),
        ("one b", "B", "/etc/lists/sub/one"),
        ("two", "A", "/abs/two"),
        ("m", "A", "/etc/lists/main"),
    ];
    assert_eq!(all, expected);
    assert!(lists.entries.iter().all(|e| e.kind == Kind::Exception));
    assert_eq!(lists.problems.not_read, 1, "{:?}", lists.problems);
    assert!(matches!(lists.problems.kept[0].kind, ProblemKind::Unreadable(_)));
    assert_eq!(lists.problems.kept[0].file, "/etc/lists/no");
}

#[test]
fn circles_of_includes_end() {
    let files: [(&str, &[u8]); 2] = [("/a", b".Include</b>\n<x>"), ("/b", b".Include</a>\n<y>")];
    let lists = read(&files, Role::Banned);
    assert_eq!(kinds(&lists), [(1, ProblemKind::IncludeDepth)]);
    assert_eq!(lists.entries.len(), 2);
    let deep: Vec<(String, String)> =
        (0..40).map(|n| (format!("/{n}"), format!(".Include</{}>\n<{n}>", n + 1))).collect();
    let deep: Vec<(&str, &[u8])> = deep.iter().map(|(n, t)| (n.as_str(), t.as_bytes())).collect();
    let lists = read(&deep, Role::Banned);
    assert_eq!(kinds(&lists), [(1, ProblemKind::IncludeDepth)]);
    assert_eq!(lists.files.len(), INCLUDE_DEPTH_MAX);
}

#[test]
fn each_line_that_is_not_understood_is_told_with_its_place() {
    let text = format!("<ok><5>\n<no\nwhat\n#time: 8 0 16 0 1\n<!!><5>\n<{}>\n", "x".repeat(300));
    let lists = list(&text);
    use ProblemKind as P;
    let expected =
        [(2, P::Bracket), (3, P::NotAPhrase), (4, P::Time), (5, P::Empty), (6, P::LongPhrase)];
    assert_eq!(kinds(&lists), expected);
    assert_eq!(lists.entries.len(), 1);
    assert_eq!(lists.files[0].not_read, 5);
    let shown = lists.problems.kept[0].to_string();
    assert_eq!(shown, "list:2: a '<' is not closed, or stands inside a phrase: <no");
    assert!(lists.problems.kept[4].text.len() <= 80);
    assert!("x".repeat(300).len() > PHRASE_BYTES_MAX);
}

#[test]
fn a_million_bad_lines_are_counted_and_the_first_ones_kept() {
    let lists = list(&format!("<a><5>\n{}", "?\n".repeat(1_000_000)));
    assert_eq!(lists.problems.not_read, 1_000_000);
    assert_eq!(lists.problems.kept.len(), PROBLEMS_KEPT_MAX);
    // What is not read goes before notes.
    let lists = list(&format!("<a><5>\n{}<no\n", "<a><5>\n".repeat(5_000)));
    assert_eq!((lists.problems.not_read, lists.problems.notes), (1, 5_000));
    assert!(lists.problems.kept.iter().any(|p| p.kind == ProblemKind::Bracket));
}

#[test]
fn the_first_of_two_equal_phrases_counts() {
    let lists = list("<a>,<b><5>\n< A ><1>\n<b>,<a>,<a><7>\n<a>,<b>\n< a ><1>\n");
    assert_eq!(lists.entries.len(), 3);
    let places: Vec<String> = lists.problems.kept.iter().map(ToString::to_string).collect();
    assert_eq!(
        places,
        [
            "list:3: the same as list:1, which counts: <b>,<a>,<a><7>",
            "list:5: the same as list:2, which counts: < a ><1>"
        ]
    );
    assert_eq!(lists.problems.not_read, 0);
}

#[test]
fn simple_lists_have_whole_words() {
    let lists = list("# words\ncasino\t30\nfree money -5\nword\n");
    let all: Vec<_> = lists.entries.iter().map(|e| e.parts[0].as_str()).collect();
    assert_eq!(all, [" casino ", " free money "]);
    assert_eq!(kinds(&lists), [(4, ProblemKind::NoWeight)]);
}

#[test]
fn other_charsets_by_name_and_bytes() {
    let files: [(&str, &[u8]); 1] =
        [("russian-koi8-r/weighted", b"<\xd3\xc5\xcb\xd3><5>\n<ascii><1>\n<\xc3\xa9><2>\n")];
    let lists = read(&files, Role::Banned);
    assert_eq!(lists.files[0].charset, "KOI8-R");
    let all: Vec<_> = lists.entries.iter().map(|e| e.parts[0].as_str()).collect();
    assert_eq!(all, ["секс", "ascii", "é"]);
    let lists = read(&[("l", b"\xef\xbb\xbf<caf\xe9><5>\n")], Role::Banned);
    assert_eq!(
        (lists.files[0].charset, lists.entries[0].parts[0].as_str()),
        ("windows-1252", "café")
    );
    let lists = read(&[("japanese", b"<\x81><5>\n")], Role::Banned);
    assert_eq!(kinds(&lists), [(1, ProblemKind::Charset("EUC-JP, Shift_JIS"))]);
}

//! What is found in texts and pages, and what it adds up to.

use std::sync::Arc;

use gauntlet_phrases::{Count, Form, Kind, PhraseSet, Score, ScoreOptions, Sight, Verdict};

use crate::lists::{list, read};

pub(crate) fn set(text: &str) -> Arc<PhraseSet> {
    let lists = list(text);
    assert_eq!(lists.problems.not_read, 0, "{:?}", lists.problems.kept);
    Arc::new(PhraseSet::compile(&lists).unwrap())
}

fn options(limit: i64) -> ScoreOptions {
    ScoreOptions { limit, count: Count::Once }
}

fn html(set: &Arc<PhraseSet>, page: &str) -> Score {
    set.score(page, Form::Html, &options(50))
}

fn phrases(score: &Score) -> Vec<&str> {
    score.hits().iter().map(|hit| hit.phrase.as_str()).collect()
}

#[test]
fn words_and_parts_of_words() {
    let set = set("< bet ><10>\n<casino><20>\n");
    let total = |text| set.score(text, Form::Plain, &options(50)).total();
    for (text, points) in [
        ("bet", 10),
        ("a bet!", 10),
        ("better", 0),
        ("abet", 0),
        ("(BET)", 10),
        ("Casinos", 20),
        ("bet bet bet casino casino", 30),
        ("Casino-Bet", 30),
        ("", 0),
    ] {
        assert_eq!(total(text), points, "{text:?}");
    }
}

#[test]
fn every_occurrence_if_it_is_set_so() {
    let set = set("<a><10>\n<a>,<b><100>\n");
    let every = ScoreOptions { limit: 50, count: Count::Every };
    let score = set.score("a a a b b", Form::Plain, &every);
    assert_eq!(score.total(), 30 + 200);
    let counts: Vec<u32> = score.hits().iter().map(|hit| hit.count).collect();
    assert_eq!(counts, [3, 2]);
    assert_eq!(set.score("a a a b b", Form::Plain, &options(50)).total(), 110);
    assert_eq!(set.score("b b b", Form::Plain, &every).total(), 0);
}

#[test]
fn combinations_need_all_their_phrases() {
    let set = set("<nude>,<girls>,<free><40>\n<sex>,<education><-30>\n<sex><20>\n");
    assert_eq!(html(&set, "<p>Nude and free").total(), 0);
    let score = html(&set, "<p>free nude girls");
    assert_eq!((score.total(), phrases(&score)), (40, vec!["free + girls + nude"]));
    assert_eq!(html(&set, "sex education").total(), -10);
}

#[test]
fn banned_phrases_exceptions_and_the_limit() {
    let banned = set("<bad><30>\n<worse>\n");
    assert_eq!(html(&banned, "bad").verdict(), Verdict::Below);
    let score = html(&banned, "bad and worse");
    assert_eq!((score.verdict(), score.blocks()), (Verdict::Banned, true));
    assert!(score.what_would_change_it().contains("\"worse\""));
    let limit = set("<bad><30>\n<awful><20>\n<dire><1>\n");
    let score = html(&limit, "bad awful");
    assert_eq!((score.total(), score.verdict()), (50, Verdict::Below));
    assert_eq!(score.what_would_change_it(), "1 points more, or a limit below 50, would block it");
    let score = html(&limit, "bad awful dire");
    assert_eq!((score.total(), score.verdict()), (51, Verdict::OverLimit));
    assert_eq!(score.what_would_change_it(), "1 points less, or a limit of 51, would let it pass");
    let lists = read(&[("l", b"<good>\n<bad><99>\n")], gauntlet_phrases::Role::Exception);
    let exception = Arc::new(PhraseSet::compile(&lists).unwrap());
    assert_eq!(html(&exception, "bad").verdict(), Verdict::OverLimit);
    assert_eq!(html(&exception, "bad and good").verdict(), Verdict::Exception);
}

#[test]
fn percentages_are_of_the_limit() {
    let set = set("<a><10%>\n<b><-10%>\n");
    assert_eq!(set.score("a", Form::Plain, &options(200)).total(), 20);
    assert_eq!(set.score("b", Form::Plain, &options(55)).total(), -5);
}

#[test]
fn tags_references_and_hidden_text() {
    let set = set("< casino ><60>\n");
    for page in [
        "<p>casino</p>",
        "<a>x</a><a>casino</a>",
        "ca<b>si</b>no",
        "c&#97;sino",
        "cas&#x200b;ino",
        "ｃａｓｉｎｏ",
        "ca<!-- x -->sino",
        "<meta content='casino'>",
        "<!-- casino -->",
        "<script>casino</script>",
        "<img alt=casino>",
        "casino&nbsp;",
        "&#160casino",
        "<td>a<td>casino<",
    ] {
        let score = html(&set, page);
        assert_eq!(score.total(), 60, "{page}");
        assert!(score.blocks(), "{page}");
    }
    for page in ["ca<p>sino</p>", "ca&nbsp;sino", "casinos", "&lt;b&gt;ca&lt;/b&gt;sino"] {
        assert_eq!(html(&set, page).total(), 0, "{page}");
    }
}

#[test]
fn named_references_of_what_nobody_sees() {
    let set = set("< casino ><60>\n");
    for name in [
        "af",
        "ApplyFunction",
        "ic",
        "InvisibleComma",
        "it",
        "InvisibleTimes",
        "NoBreak",
        "ZeroWidthSpace",
        "NegativeThinSpace",
        "NegativeMediumSpace",
        "NegativeThickSpace",
        "NegativeVeryThinSpace",
        "shy",
        "zwj",
        "zwnj",
        "lrm",
        "rlm",
    ] {
        assert_eq!(html(&set, &format!("cas&{name};ino")).total(), 60, "{name}");
    }
}

#[test]
fn shown_and_hidden_words_have_sums_of_their_own() {
    let set = set("<bad><60>\n<medical><-40>\n");
    // Good words that nobody sees do not make up for bad ones that are shown.
    let score = html(&set, "<!-- medical -->bad");
    assert_eq!((score.total(), score.verdict()), (60, Verdict::OverLimit));
    assert_eq!(score.sights[score.deciding].sight, Sight::Text);
    assert_eq!(score.sights[1].total, 20);
    // The same word in both is counted once.
    assert_eq!(html(&set, "bad <!-- bad -->").total(), 60);
    let score = html(&set, "<meta content=bad>medical");
    assert_eq!(score.total(), 20);
    assert_eq!(score.sights[score.deciding].sight, Sight::Raw);
}

#[test]
fn evidence_names_file_line_category_and_points() {
    let set = set("#listcategory: \"Gambling\"\n<casino><40>\n#listcategory: \"Drugs\"\n<x>\n");
    let score = html(&set, "Casino casino X");
    let [casino, x] = score.hits() else { panic!("{score:?}") };
    assert_eq!((&*casino.file, casino.line, casino.count, casino.points), ("list", 2, 2, 40));
    assert_eq!((&*casino.category, x.kind), ("Gambling", Kind::Banned));
    let categories = score.categories();
    let categories: Vec<_> = categories.iter().map(|(name, n)| (&**name, *n)).collect();
    assert_eq!(categories, [("Gambling", 40), ("Drugs", 0)]);
}

#[test]
fn phrases_across_two_pieces_are_found() {
    let set = set("<free money><60>\n<é&><1>\n");
    let page = "<p>Get fr<b>ee</b> mo&#110;ey é&amp; now";
    let whole = html(&set, page);
    assert!(whole.total() >= 60);
    for at in (0..page.len()).filter(|at| page.is_char_boundary(*at)) {
        let (one, two) = page.split_at(at);
        let mut scanner = set.scanner(Form::Html);
        scanner.push(one);
        scanner.push(two);
        assert_eq!(scanner.finish(&options(50)), whole, "cut at {at}");
    }
}

#[test]
fn an_empty_set_finds_nothing() {
    let set = set("# nothing\n");
    assert!(set.is_empty());
    assert_eq!(html(&set, "a page").total(), 0);
}

#[test]
fn a_page_of_megabytes_takes_linear_time() {
    let set = set("<aa><1>\n<aaaaaaaaaaaaaaaaaaaa><1>\n< a ><1>\n");
    let begun = std::time::Instant::now();
    for page in ["a".repeat(4 << 20), "<".repeat(4 << 20), "&a".repeat(2 << 20)] {
        html(&set, &page);
    }
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}

//! What matches of rules say of bytes.

use std::time::{Duration, Instant};

use gauntlet_ids::inspect::prefilter::{Matcher, Scratch};
use gauntlet_ids::inspect::{Buffer, Inspector};
use gauntlet_ids::rule::{FastPattern, Rule};

use super::ask;

fn rule(options: &str) -> Rule {
    let text = format!("alert tcp any any -> any any ({options} sid:1;)");
    let mut set = ask::read(text.as_bytes());
    assert!(set.problems.is_empty(), "{text}: {:?}", set.problems);
    set.rules.pop().unwrap()
}

fn holds_on(rule: &Rule, buffer: &Buffer<'_>) -> bool {
    let mut inspector = Inspector::default();
    inspector.begin();
    let matches = match rule.buffers.first() {
        Some(buffer) => &buffer.matches,
        None => &rule.payload,
    };
    inspector.inspect(matches, &rule.base64, buffer, &mut ask::Nothing)
}

fn holds(options: &str, bytes: &[u8]) -> bool {
    holds_on(&rule(options), &Buffer::whole(bytes))
}

/// Options, bytes on which they hold, bytes on which they do not.
type Row = (&'static str, &'static [&'static [u8]], &'static [&'static [u8]]);

fn check(rows: &[Row]) {
    for (options, good, bad) in rows {
        for bytes in *good {
            assert!(holds(options, bytes), "{options} on {}", bytes.escape_ascii());
        }
        for bytes in *bad {
            assert!(!holds(options, bytes), "{options} on {}", bytes.escape_ascii());
        }
    }
}

#[test]
fn contents_are_found_where_they_may_be() {
    check(&[
        (r#"content:"abc";"#, &[b"abc", b"xxabcxx"], &[b"ABC", b"ab", b""]),
        (r#"content:"a|42 20|c";"#, &[b"aB c"], &[b"ab c"]),
        (r#"content:"aBc"; nocase;"#, &[b"xABCx", b"abc"], &[b"ab"]),
        (r#"content:!"abc";"#, &[b"ab", b"xyz"], &[b"xabc"]),
        (r#"content:"abc"; depth:3;"#, &[b"abcd"], &[b"xabc"]),
        (r#"content:"abc"; depth:4;"#, &[b"abcd", b"xabc"], &[b"xxabc"]),
        (r#"content:"abc"; offset:2;"#, &[b"abcabc", b"xxabc"], &[b"xabc"]),
        (r#"content:"abc"; offset:2; depth:3;"#, &[b"xxabc"], &[b"xabc", b"xxxabc"]),
        (r#"content:"abc"; startswith;"#, &[b"abc", b"abcd"], &[b"xabc"]),
        (r#"content:"abc"; endswith;"#, &[b"abc", b"abcabc"], &[b"abcx"]),
        (r#"content:!"abc"; endswith;"#, &[b"abcx", b"x"], &[b"abc"]),
        (r#"content:"abc"; startswith; endswith;"#, &[b"abc"], &[b"abcabc", b"xabc"]),
    ]);
}

#[test]
fn relative_contents_look_behind_the_last_match() {
    check(&[
        (r#"content:"a"; content:"b"; distance:1;"#, &[b"axb", b"abab"], &[b"ab", b"ba"]),
        (r#"content:"a"; content:"b"; within:1;"#, &[b"ab", b"aab"], &[b"axb", b"ba"]),
        (r#"content:"a"; content:"b"; distance:1; within:2;"#, &[b"axb", b"axxb"], &[b"axxxb"]),
        (r#"content:"ab"; content:"b"; distance:-1;"#, &[b"ab"], &[b"a"]),
        (r#"content:"ab"; content:"a"; distance:-9; within:9;"#, &[b"ab", b"xxab"], &[b"ba"]),
        (r#"content:"a"; content:!"b"; within:1;"#, &[b"ac", b"aba"], &[b"ab"]),
        (r#"content:"a"; content:!"b"; distance:0;"#, &[b"ac", b"ba"], &[b"acb"]),
        // What does not depend on a match does not make it look for the next one.
        (r#"content:"a"; content:"b";"#, &[b"ba", b"ab"], &[b"aa"]),
        (
            r#"content:"a"; content:"b"; within:1; content:"c"; within:1;"#,
            &[b"abxabc", b"aababc"],
            &[b"abxac", b"abbc"],
        ),
    ]);
}

#[test]
fn numbers_in_bytes_are_compared_and_followed() {
    check(&[
        ("byte_test:2,>,256,0;", &[b"\x01\x01"], &[b"\x01\x00", b"\x01"]),
        ("byte_test:2,<,256,0,little;", &[b"\x01\x00"], &[b"\x01\x01"]),
        ("byte_test:1,!=,1,0;", &[b"\x02"], &[b"\x01"]),
        ("byte_test:1,&,4,0;", &[b"\x07"], &[b"\x03"]),
        ("byte_test:4,=,1234,0,string,dec;", &[b"1234"], &[b"1235", b"abcd"]),
        ("byte_test:4,=,255,0,string,hex;", &[b"0xff", b"00ff"], &[b"00fe"]),
        ("byte_test:1,=,3,0,bitmask 0xf0;", &[b"\x3f"], &[b"\x2f"]),
        (
            r#"content:"a"; byte_test:1,=,2,1,relative;"#,
            &[b"ax\x02", b"xax\x02"],
            &[b"a\x02", b"a"],
        ),
        (r#"byte_jump:1,0; content:"x"; within:1;"#, &[b"\x02abx"], &[b"\x01abx", b"\x09abx"]),
        (
            r#"byte_jump:1,0,multiplier 2,align; content:"x"; within:1;"#,
            &[b"\x01abcdx"],
            &[b"\x01abxcd"],
        ),
        (r#"byte_jump:1,0,from_beginning; content:"x"; within:1;"#, &[b"\x02ax"], &[b"\x02abx"]),
        (r#"byte_jump:0,0,from_end,post_offset -1; content:"x"; within:1;"#, &[b"abx"], &[b"axb"]),
        (r#"byte_extract:1,0,n; content:"x"; offset:n;"#, &[b"\x03abx"], &[b"\x03axb"]),
        (
            r#"byte_extract:1,0,n; content:"a"; content:"x"; distance:0; within:n;"#,
            &[b"\x02abx"],
            &[b"\x01abx"],
        ),
        ("byte_extract:1,0,n; byte_test:1,=,n,1;", &[b"\x05\x05"], &[b"\x05\x06"]),
        ("byte_extract:1,0,n; isdataat:n;", &[b"\x01ab"], &[b"\x05ab"]),
        (
            "byte_math:bytes 1,offset 0,oper +,rvalue 2,result r; byte_test:1,=,r,1;",
            &[b"\x03\x05"],
            &[b"\x03\x06"],
        ),
        (
            "byte_math:bytes 1,offset 0,oper <<,rvalue 1,result r; byte_test:1,=,r,1;",
            &[b"\x03\x06"],
            &[b"\x03\x03"],
        ),
    ]);
}

#[test]
fn sizes_patterns_and_decoded_bytes() {
    check(&[
        ("isdataat:4;", &[b"abcde"], &[b"abcd"]),
        ("isdataat:!4;", &[b"abcd"], &[b"abcde"]),
        (r#"content:"a"; isdataat:1,relative;"#, &[b"ab"], &[b"a"]),
        (r#"content:"a"; isdataat:!1,relative;"#, &[b"xa", b"aba"], &[b"ab", b"abb"]),
        (r#"http.uri; content:"a"; bsize:3;"#, &[b"abc"], &[b"ab", b"abcd"]),
        (r#"http.uri; content:"a"; bsize:2<>5;"#, &[b"abc", b"abcd"], &[b"ab", b"abcde"]),
        ("http.uri; urilen:>2;", &[b"abc"], &[b"ab"]),
        (r#"pcre:"/a(b|c)d/";"#, &[b"xacdx"], &[b"aed"]),
        (r#"pcre:"/ABC/i";"#, &[b"xabc"], &[b"ab"]),
        (r#"pcre:!"/abc/";"#, &[b"ab"], &[b"abc"]),
        (r#"content:"x"; pcre:"/^ab/R";"#, &[b"xab", b"xxab"], &[b"xxxcab"]),
        (r#"pcre:"/a/"; content:"b"; distance:0; within:1;"#, &[b"aab"], &[b"aa", b"axb"]),
        (r#"pcre:"/a./"; pcre:"/^c/R";"#, &[b"abc", b"axabc"], &[b"abxc"]),
        (r#"base64_decode; base64_data; content:"abc";"#, &[b"eGFiYw==", b"YWJj"], &[b"YWJk"]),
        (
            r#"content:"="; base64_decode:bytes 4,offset 1,relative; base64_data; content:"abc";"#,
            &[b"x= YWJjYWJj"],
            &[b"x=YWJjYWJj", b"YWJj"],
        ),
    ]);
}

#[test]
fn parts_of_streams_count_from_the_whole() {
    let at = |offset| Buffer { bytes: b"xxabc", offset, is_start: false, is_end: false };
    let early = rule(r#"content:"abc"; depth:8;"#);
    assert!(holds_on(&early, &at(1)));
    assert!(holds_on(&early, &at(3)));
    assert!(!holds_on(&early, &at(4)), "it would end at 9");
    assert!(!holds_on(&early, &at(8)));
    assert!(holds_on(&rule(r#"content:"abc";"#), &at(100)));
}

/// Letters of a small pseudo-random sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }

    fn text(&mut self, len: u64) -> String {
        (0..len).map(|_| char::from(b'a' + self.below(2) as u8)).collect()
    }
}

struct Link {
    text: String,
    distance: usize,
    within: Option<usize>,
}

/// Whether there are places for all links, by trying every one.
fn is_possible(links: &[Link], bytes: &str, place: usize) -> bool {
    let Some((first, rest)) = links.split_first() else { return true };
    let last = bytes.len().min(first.within.map_or(usize::MAX, |w| place + first.distance + w));
    (place + first.distance..last).any(|start| {
        let end = start + first.text.len();
        end <= last && bytes[start..end] == first.text && is_possible(rest, bytes, end)
    })
}

#[test]
fn chains_are_found_whenever_there_is_one() {
    let mut random = Random(1);
    let mut found = 0;
    for _ in 0..400 {
        let mut links = Vec::new();
        let mut options = String::new();
        for i in 0..2 + random.below(3) {
            let len = 1 + random.below(3);
            let text = random.text(len);
            options.push_str(&format!("content:\"{text}\"; "));
            let (mut distance, mut within) = (0, None);
            if i > 0 {
                distance = random.below(3) as usize;
                options.push_str(&format!("distance:{distance}; "));
                if random.below(3) > 0 {
                    let most = text.len() + random.below(3) as usize;
                    options.push_str(&format!("within:{most}; "));
                    within = Some(most);
                }
            }
            links.push(Link { text, distance, within });
        }
        let rule = rule(&options);
        for _ in 0..20 {
            let len = 4 + random.below(14);
            let bytes = random.text(len);
            let wanted = is_possible(&links, &bytes, 0);
            found += usize::from(wanted);
            let holds = holds_on(&rule, &Buffer::whole(bytes.as_bytes()));
            assert_eq!(holds, wanted, "{options} on {bytes}");
        }
    }
    assert!(found > 1_000, "{found}");
}

#[test]
fn what_would_take_forever_is_given_up() {
    let begin = Instant::now();
    let relative = r#"content:"a"; within:9; "#.repeat(20);
    let options = format!(r#"content:"a"; {relative} content:"b"; within:9;"#);
    assert!(!holds(&options, &[b'a'; 5_000]));
    let patterns = r#"pcre:"/a/R"; "#.repeat(8);
    let options = format!(r#"content:"a"; {patterns} content:"b"; within:9;"#);
    assert!(!holds(&options, &[b'a'; 5_000]));
    assert!(!holds(r#"pcre:"/(a+a+)+b/";"#, &[b'a'; 5_000]));
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn candidates_are_all_that_have_their_pattern() {
    let mut random = Random(7);
    let contents: Vec<Rule> = (0..120)
        .map(|i| {
            let len = 1 + random.below(if i < 60 { 5 } else { 12 });
            let text = random.text(len);
            let nocase = if random.below(2) == 0 { "" } else { " nocase;" };
            let place = match random.below(6) {
                0 => format!(" depth:{};", len + random.below(9)),
                1 => format!(" offset:{};", random.below(9)),
                2 => " endswith;".to_owned(),
                _ => String::new(),
            };
            rule(&format!("content:\"{text}\";{nocase}{place}"))
        })
        .collect();
    let patterns: Vec<(u32, &FastPattern)> =
        (0..).zip(contents.iter().map(|rule| rule.fast_pattern.as_ref().unwrap())).collect();
    let matcher = Matcher::new(&patterns);
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let mut found = 0;
    for _ in 0..2_000 {
        let len = random.below(24);
        let mut text = random.text(len);
        if random.below(2) == 0 {
            text.make_ascii_uppercase();
        }
        out.clear();
        matcher.candidates(text.as_bytes(), &mut scratch, &mut out);
        out.sort_unstable();
        let buffer = Buffer::whole(text.as_bytes());
        let numbered = (0_u32..).zip(&contents);
        let wanted: Vec<u32> =
            numbered.filter(|(_, rule)| holds_on(rule, &buffer)).map(|(n, _)| n).collect();
        found += wanted.len();
        assert_eq!(out, wanted, "{text}");
    }
    assert!(found > 10_000, "{found}");
}

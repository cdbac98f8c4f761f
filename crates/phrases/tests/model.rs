//! Random texts, against a model that is as plain as can be: normalise, then look for each phrase.

use std::collections::BTreeSet;

use gauntlet_phrases::{Count, Form, ScoreOptions};

use crate::scanning::set;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Lower case, signs as one space; only what the texts below are made of.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.to_lowercase().chars() {
        let is_space = c.is_whitespace() || "!\"#$%&'()*+,-.:;<=>?@[\\]^_`".contains(c);
        match is_space {
            true if !out.ends_with(' ') => out.push(' '),
            true => {}
            false => out.push(c),
        }
    }
    out
}

fn occurrences(text: &str, phrase: &str) -> i64 {
    text.char_indices().filter(|(at, _)| text[*at..].starts_with(phrase)).count() as i64
}

const WORDS: [&str; 14] =
    ["ab", "a", "b", "BA", "aba", "é", "Éa", "ж", "Ж", " ", "  ", "-", "!", "\n"];
const TAGS: [(&str, &str); 6] = [
    ("<b>", ""),
    ("</b>", ""),
    ("<p>", " "),
    ("<br/>", " "),
    ("<!-- ab -->", ""),
    ("<script>aba</script>", ""),
];

/// A phrase without signs at which it would be empty.
fn phrase(random: &mut Random) -> String {
    loop {
        let words: String = (0..=random.below(3)).map(|_| random.pick(&WORDS)).collect();
        if !plain(&words).trim().is_empty() && !words.contains('\n') {
            return words;
        }
    }
}

#[test]
fn scores_are_those_of_the_model() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for round in 0..600 {
        let mut lines = String::new();
        let mut model: Vec<(BTreeSet<String>, i64)> = Vec::new();
        for _ in 0..random.below(8) {
            let parts: Vec<String> = (0..=random.below(2)).map(|_| phrase(&mut random)).collect();
            let weight = random.below(100) as i64 - 40;
            let written: Vec<String> = parts.iter().map(|part| format!("<{part}>")).collect();
            lines.push_str(&format!("{}<{weight}>\n", written.join(",")));
            // A phrase keeps one blank at either end.
            let parts: BTreeSet<String> = parts.iter().map(|part| plain(part)).collect();
            if model.iter().all(|(other, _)| *other != parts) {
                model.push((parts, weight));
            }
        }
        let (mut page, mut text) = (String::new(), String::new());
        for _ in 0..random.below(40) {
            if random.below(4) == 0 {
                let (tag, shown) = TAGS[random.below(TAGS.len())];
                page.push_str(tag);
                text.push_str(shown);
            } else {
                let word = random.pick(&WORDS);
                page.push_str(word);
                text.push_str(word);
            }
        }
        let set = set(&lines);
        for (count, every) in [(Count::Once, false), (Count::Every, true)] {
            let options = ScoreOptions { limit: 50, count };
            let expected = |text: &str| -> i64 {
                let text = plain(&format!(" {text} "));
                let of = |(parts, weight): &(BTreeSet<String>, i64)| {
                    let times = parts.iter().map(|p| occurrences(&text, p)).min().unwrap_or(0);
                    weight * if every { times } else { times.min(1) }
                };
                model.iter().map(of).sum()
            };
            let score = set.score(&page, Form::Html, &options);
            let totals: Vec<i64> = score.sights.iter().map(|sight| sight.total).collect();
            let context = format!("round {round}:\n{lines}\n{page:?}");
            assert_eq!(totals, [expected(&text), expected(&page)], "{context}");
            let score = set.score(&page, Form::Plain, &options);
            assert_eq!(score.total(), expected(&page), "{context}");
        }
    }
}

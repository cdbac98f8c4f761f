//! `docs/reference/rules.md`: the rules about texts that come with the program, from `rules/`.

use std::collections::BTreeMap;

use super::{cell, golden, root};

const HEAD: &str = "# Rules about texts

The rules in SpamAssassin's language that come with the program (`rules/`), by file, with the points
in force. A test makes this page. `phishing` and `bulk` say which kind of mail a rule speaks for.
Rules that our filters hit by themselves, without a text of their own, are on [a page of their
own](../filters.md). How to write and test rules: [rules](../rules.md), and [a
recipe](../handbook/recipes.md#write-a-rule-and-try-it-on-last-weeks-mail).
";

#[derive(Debug, Default)]
struct Rule {
    points: String,
    flags: Vec<String>,
    says: String,
}

/// The comment that a file begins with.
fn about(text: &str) -> String {
    let lines = text.lines().take_while(|line| line.starts_with('#'));
    lines.map(|line| line.trim_start_matches('#').trim()).collect::<Vec<_>>().join(" ")
}

/// Rules that score, by name; those with `__` are parts of others.
fn rules(text: &str) -> BTreeMap<String, Rule> {
    let mut found: BTreeMap<String, Rule> = BTreeMap::new();
    for line in text.lines() {
        // Columns may be set apart by any number of blanks.
        let Some((what, rest)) = line.trim().split_once(' ') else { continue };
        let Some((name, rest)) = rest.trim_start().split_once(' ') else { continue };
        let rest = rest.trim();
        if name.starts_with("__") || !matches!(what, "score" | "describe" | "tflags") {
            continue;
        }
        let rule = found.entry(name.to_owned()).or_default();
        match what {
            "score" => rest.clone_into(&mut rule.points),
            "describe" => rest.clone_into(&mut rule.says),
            _ => rule.flags.extend(rest.split(' ').map(str::to_owned)),
        }
    }
    found
}

#[test]
fn the_page_of_rules_is_true() {
    let folder = root().join("rules");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("rules/")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "cf"))
        .collect();
    files.sort();
    let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("rules");
    let fitted = rules(&read(&folder.join("scores.cf")));
    let (mut page, mut count) = (HEAD.to_owned(), 0);
    for path in files.iter().filter(|path| !path.ends_with("scores.cf")) {
        let text = read(path);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().replace('_', " ");
        page += &format!("\n## {name}\n\n{}\n\n", super::wrapped(&about(&text)));
        page += "| Rule | Points | Kind | Says |\n|---|---:|---|---|\n";
        for (name, rule) in rules(&text) {
            let points = fitted.get(&name).map_or(&rule.points, |fitted| &fitted.points);
            let kinds =
                rule.flags.iter().filter(|flag| matches!(flag.as_str(), "phishing" | "bulk"));
            let kind: Vec<&str> = kinds.map(String::as_str).collect();
            page +=
                &format!("| `{name}` | {points} | {} | {} |\n", kind.join(" "), cell(&rule.says));
            count += 1;
        }
    }
    assert!(count > 200, "the rules are found: {count}");
    golden("rules.md", &page);
}

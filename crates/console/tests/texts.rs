//! Every page in a language that nobody speaks: what is not from the catalogue shows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::common::{Running, Sample, found, hit, start_with};
use gauntlet_console::{Access, Method, Texts, routes};
use gauntlet_mail::View;
use gauntlet_verdict::Class;

/// Around every phrase of the made-up language.
const MARKS: [char; 2] = ['⟦', '⟧'];
/// What others wrote is in a script of its own, so that Latin letters are ours.
const LETTER: &[u8] = "From: Αλφα <a@1.2>\r\nTo: ursula@example.com\r\nSubject: Θέμα 1\r\n\
    Message-ID: <1@2>\r\n\r\nΚείμενο 77\r\n"
    .as_bytes();

fn made_up() -> Texts {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("text/en.toml");
    let english: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let mut text = toml::Table::new();
    for (phrase, _) in english["text"].as_table().unwrap() {
        text.insert(phrase.clone(), format!("{}{phrase}{}", MARKS[0], MARKS[1]).into());
    }
    let mut catalogue = toml::Table::new();
    catalogue.insert("language".to_owned(), "x-test".into());
    catalogue.insert("text".to_owned(), text.into());
    Texts::parse(&catalogue.to_string()).unwrap()
}

fn console() -> Running {
    let console = start_with(|state, _| state.texts = Arc::new(made_up()));
    for (n, class) in [(1, Class::Spam), (2, Class::Phishing), (3, Class::Ham)] {
        let id = n.to_string();
        let text = std::str::from_utf8(LETTER).unwrap();
        let hits = vec![hit("R_1", 2.5, "Λόγος", vec![found(View::Text, 1, text, "77")])];
        let (folder, to) = ((class != Class::Ham).then_some("suspect"), "ursula@example.com");
        let (score, age_ms) = (7.5, 60_000 * n);
        console.put(&Sample { id: &id, class, score, folder, to, raw: LETTER, age_ms, hits });
    }
    console
}

/// What a page shows and says, outside of phrases: texts between tags, and attributes that are read
/// out.
fn unmarked(page: &str) -> Vec<String> {
    // What stands in these is data: code, times, quotations, the policy's text.
    const DATA: [&str; 6] = ["code", "pre", "textarea", "time", "q", "style"];
    const SAID: [&str; 5] = ["title", "aria-label", "placeholder", "data-label", "alt"];
    let (mut out, mut depth) = (Vec::new(), 0);
    let mut inside: Vec<String> = Vec::new();
    let mut rest = page;
    while let Some((text, after)) = rest.split_once('<') {
        if !inside.iter().any(|name| DATA.contains(&name.as_str())) {
            out.extend(outside_marks(text, &mut depth));
        }
        let (tag, next) = after.split_once('>').expect("a tag ends");
        rest = next;
        let name = tag.split([' ', '/']).find(|n| !n.is_empty()).unwrap_or_default().to_owned();
        if tag.starts_with('/') {
            inside.retain(|open| *open != name);
        } else if DATA.contains(&name.as_str()) {
            inside.push(name);
        }
        for said in SAID {
            let Some((_, value)) = tag.split_once(&format!(" {said}=\"")) else { continue };
            out.extend(outside_marks(value.split('"').next().unwrap(), &mut 0));
        }
    }
    out
}

/// The words of Latin letters in a text that no phrase says. A phrase may have tags within.
fn outside_marks(text: &str, depth: &mut i32) -> Vec<String> {
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            c if c == MARKS[0] => *depth += 1,
            c if c == MARKS[1] => *depth -= 1,
            c if *depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let words = plain.split_whitespace().map(str::to_owned);
    words.filter(|w| w.chars().filter(char::is_ascii_lowercase).count() > 2).collect()
}

/// Words of the test's own node, users, policy and samples, and names that are the same in every
/// language.
const KNOWN: &[&str] = &[
    // Names.
    "Gauntlet",
    "gauntlet",
    "From",
    "Subject",
    "Message-ID",
    // The node's rules, filters and stages, and its doctor's findings.
    "Asks",
    "Waits",
    "any",
    "body",
    "confirm",
    "details",
    "example",
    "for",
    "gone",
    "mail",
    "more",
    "nobody",
    "payment",
    "sends",
    "classifier",
    "facts",
    "headers",
    "receive",
    "scan",
    "spool",
    "maildir",
    "ask",
    "before",
    "clock",
    "data",
    "disk",
    "free",
    "full",
    "make",
    "most",
    "name",
    "not",
    "record",
    "reverse",
    "room",
    "synchronised",
    "/var/lib/gauntlet",
    "message",
    "mailbox",
    "busy",
    "opportunistic",
    "required",
    // The policy, folders, users, and examples in fields.
    "Everything",
    "Spam",
    "else",
    "quarantine",
    "suspect",
    "bulk",
    "admin",
    "rita",
    "ursula",
    "dashboard",
    // What the audit log says was done.
    "add",
    "administrator",
    "download",
    "reviewer",
    "sign-in",
    "user",
    "test",
    // An example in a field, a type of content.
    "console",
    "text/plain",
    "that",
    "urls",
    "wrong",
];

#[test]
fn no_page_says_anything_that_is_not_in_the_catalogue() {
    let console = console();
    let link = console.way_in();
    let people = ["admin", "ursula"].map(|login| console.sign_in(login));
    let mut pages: Vec<String> = Vec::new();
    for route in routes().filter(|r| r.method == Method::Get && !r.path.starts_with("/api/")) {
        let held = route.path.starts_with("/quarantine/");
        let path = route.path.replace("{id}", if held { "held-1" } else { "1" });
        let path = path.replace("{number}", "1").replace("{login}", "ursula");
        pages.push(path.replace("{token}", &link).replace("{file}", "none"));
    }
    pages.extend(["/nothing", "/messages/unknown", "/link/x"].map(str::to_owned));
    let mut untranslated: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in &pages {
        for cookie in people.iter().map(String::as_str).chain([""]) {
            let answer = console.request("GET", path, cookie, "");
            let is_page = answer.header("content-type").is_some_and(|t| t.starts_with("text/html"));
            if !is_page || path.ends_with("/html") {
                continue;
            }
            assert!(answer.body.contains("lang=\"x-test\""), "{path}");
            for word in unmarked(&answer.body) {
                let bare = word.trim_matches([',', '.', ':', ';', '(', ')', '"']);
                // Addresses and names of hosts and settings are data, too.
                if !KNOWN.contains(&bare) && !bare.contains(['.', '@', '_']) {
                    untranslated.entry(word).or_default().insert(path.clone());
                }
            }
        }
    }
    assert!(untranslated.is_empty(), "not from text/en.toml: {untranslated:#?}");
    assert!(routes().any(|r| r.access == Access::Public), "there are pages for everybody");
}

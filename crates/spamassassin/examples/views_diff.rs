//! Compares the views with a dump of SpamAssassin's, layer by layer:
//! `cargo run --release -p gauntlet-rules --example views_diff -- RULES BASE DUMP.jsonl [LAYER]`
//!
//! A dump holds one JSON object a line: `file` (below BASE), `body`, `rawbody`, `uris`, `full_len`,
//! `headers` by selector, and optionally `more` (selector to list of values), `html` (facts of each
//! HTML part) and `flags`. Each byte of a text is one character below U+0100. With a layer, its
//! first differences are printed.

#![allow(clippy::print_stdout, reason = "a command line program")]

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::{HeaderSelector, LoadOptions};
use gauntlet_spamassassin::{Ruleset, Views};
use serde_json::Value;

/// Differences shown of the chosen layer.
const SHOWN_MAX: u32 = 20;
/// Bytes of a value shown.
const SHOWN_BYTES_MAX: usize = 240;

struct Tally<'a> {
    layer: Option<&'a str>,
    file: String,
    shown: u32,
    same: BTreeMap<String, u32>,
    different: BTreeMap<String, u32>,
}

impl Tally<'_> {
    fn compare(&mut self, layer: &str, ours: &[Vec<u8>], theirs: &[Vec<u8>]) {
        if ours == theirs {
            *self.same.entry(layer.to_owned()).or_default() += 1;
            return;
        }
        *self.different.entry(layer.to_owned()).or_default() += 1;
        if self.layer != Some(layer) || self.shown >= SHOWN_MAX {
            return;
        }
        self.shown += 1;
        let first = (0..).find(|&i| ours.get(i) != theirs.get(i)).unwrap_or(0);
        println!("{} item {first} of {}/{}", self.file, ours.len(), theirs.len());
        let (ours, theirs) = (ours.get(first), theirs.get(first));
        let at = ours
            .zip(theirs)
            .map_or(0, |(a, b)| a.iter().zip(b).take_while(|(a, b)| a == b).count());
        for (who, text) in [("  ours  ", ours), ("  theirs", theirs)] {
            let text = text.map(|t| &t[at.saturating_sub(60).min(t.len())..]);
            let text = text.map(|t| t[..t.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string());
            println!("{who} @{at} {}", text.as_deref().unwrap_or("(none)"));
        }
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string());
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
}

fn list(value: &Value) -> Vec<Vec<u8>> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter(|v| !v.is_null()).map(bytes).collect()
}

fn compare_html(views: &Views<'_>, dump: &Value, tally: &mut Tally<'_>) {
    let parts = views.mime().in_order();
    let rendered = parts.iter().filter_map(|&i| views.rendered().get(i)?.as_ref());
    let ours: Vec<_> = rendered.filter_map(|r| r.html.as_ref()).collect();
    let theirs = dump.as_array().map(Vec::as_slice).unwrap_or_default();
    let theirs: Vec<&Value> = theirs.iter().filter(|v| v.get("html").is_some()).collect();
    tally.compare("html parts", &[vec![ours.len() as u8]], &[vec![theirs.len() as u8]]);
    for (ours, theirs) in ours.iter().zip(theirs) {
        let names = "font_low_contrast font_invalid_color font_face_bad form_action_mailto embeds \
            image_area length min_size max_size html_length non_space_len ratio \
            closed_extra_ratio bad_tag_ratio non_element_ratio obfuscation_ratio backhair_count";
        for name in names.split_ascii_whitespace() {
            let number =
                |v: Option<f64>| vec![v.map_or("-".into(), |v| format!("{v:.6}")).into_bytes()];
            let value = theirs.get(name).filter(|v| !v.is_null());
            let value = value.and_then(|v| v.as_f64().or_else(|| v.as_str()?.parse().ok()));
            tally.compare(&format!("html {name}"), &number(ours.number(name)), &number(value));
        }
        for name in ["comment", "script", "title", "anchor"] {
            let texts: Vec<_> = ours.texts(name).iter().map(|t| t.bytes()).collect();
            let none = Value::Null;
            tally.compare(
                &format!("html {name}"),
                &texts,
                &list(theirs.get(name).unwrap_or(&none)),
            );
        }
        let inside = ours.tags_inside().into_iter().map(|(t, n)| format!("{t}={n}").into_bytes());
        let map = theirs.get("inside").and_then(Value::as_object);
        let mut expected: Vec<Vec<u8>> = map
            .into_iter()
            .flatten()
            .map(|(t, n)| {
                let key = bytes(&Value::String(t.clone()));
                [&key[..], b"=", &bytes(n)].concat()
            })
            .collect();
        expected.sort();
        let mut inside: Vec<Vec<u8>> = inside.collect();
        inside.sort();
        tally.compare("html inside", &inside, &expected);
    }
}

fn compare(views: &Views<'_>, dump: &Value, tally: &mut Tally<'_>) {
    tally.compare("body", views.body(), &list(&dump["body"]));
    tally.compare("rawbody", views.rawbody(), &list(&dump["rawbody"]));
    let mut uris: Vec<_> = views.uris().iter().map(|u| u.text.clone()).collect();
    uris.sort();
    let mut expected = list(&dump["uris"]);
    // An anchor without a target gives an empty URI there, which rules cannot distinguish from
    // none.
    expected.retain(|u| !u.is_empty());
    expected.sort();
    tally.compare("uris", &uris, &expected);
    let length = |n: u64| vec![n.to_string().into_bytes()];
    let full = views.full().len() as u64;
    tally.compare("full", &length(full), &length(dump["full_len"].as_u64().unwrap_or(0)));
    let mut names: Vec<&str> = gauntlet_names().to_vec();
    names.extend(dump["headers"].as_object().into_iter().flatten().map(|(k, _)| k.as_str()));
    names.sort_unstable();
    names.dedup();
    for name in names {
        let ours = views.header(&HeaderSelector::parse(name));
        let ours: Vec<Vec<u8>> = ours.into_iter().map(|v| v.into_owned()).collect();
        let theirs = dump["headers"].get(name).map(bytes);
        // The dump's scalar context gives the first of several extracts.
        let first = name.contains(":addr") || name.contains(":name") || name == "EnvelopeFrom";
        let ours = if first {
            let mut all = views.header_values(&HeaderSelector::parse(name));
            all.truncate(1);
            all.into_iter().map(|v| v.into_owned()).collect()
        } else {
            ours
        };
        tally.compare(name, &ours, &theirs.into_iter().collect::<Vec<_>>());
    }
    for (name, values) in dump["more"].as_object().into_iter().flatten() {
        let ours = views.header_values(&HeaderSelector::parse(name));
        let ours: Vec<_> = ours.into_iter().map(|v| v.into_owned()).collect();
        tally.compare(&format!("more {name}"), &ours, &list(values));
    }
    for (name, set) in dump["flags"].as_object().into_iter().flatten() {
        let ours = u8::from(views.mime().has_flag(name));
        let theirs = set.as_u64().unwrap_or(0) as u8;
        tally.compare(&format!("flag {name}"), &[vec![b'0' + ours]], &[vec![b'0' + theirs]]);
    }
    if dump.get("parts").is_some() {
        compare_html(views, &dump["html"], tally);
        let tree = views.mime();
        let kinds = tree.in_order().into_iter().map(|i| tree.nodes[i].kind.clone().into_bytes());
        let parts = dump["parts"].as_array().into_iter().flatten();
        let theirs: Vec<_> = parts.map(|p| bytes(&p["type"])).collect();
        tally.compare("parts", &kinds.collect::<Vec<_>>(), &theirs);
    }
}

fn gauntlet_names() -> [&'static str; 6] {
    ["From:addr", "From:name", "EnvelopeFrom", "MESSAGEID", "ToCc", "Subject"]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [rules, base, dump, layer @ ..] = args.as_slice() else {
        return Err("usage: views_diff RULES BASE DUMP.jsonl [LAYER]".into());
    };
    let (ruleset, _) = Ruleset::load(&[PathBuf::from(rules)], &LoadOptions::default())?;
    let mut tally = Tally {
        layer: layer.first().map(String::as_str),
        file: String::new(),
        shown: 0,
        same: BTreeMap::new(),
        different: BTreeMap::new(),
    };
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let mut messages = 0;
    for line in std::io::BufReader::new(std::fs::File::open(dump)?).lines() {
        let value: Value = serde_json::from_str(&line?)?;
        let file = value["file"].as_str().unwrap_or_default().to_owned();
        let Ok(raw) = std::fs::read(Path::new(base).join(&file)) else { continue };
        messages += 1;
        tally.file = file;
        let message = Message::parse(&raw);
        let views = Views::new(&message, &envelope, &facts, ruleset.view_settings());
        compare(&views, &value, &mut tally);
    }
    println!("{messages} messages");
    for (layer, count) in &tally.different {
        println!("{count:6} of {:6} differ: {layer}", count + tally.same.get(layer).unwrap_or(&0));
    }
    Ok(())
}

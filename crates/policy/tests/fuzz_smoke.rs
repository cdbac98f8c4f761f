//! Mutated policies: read or refused with a reason, never a panic. The target for `cargo fuzz` is
//! `fuzz/fuzz_targets/policy_reader.rs`.

/// Pieces of the policy's grammar.
const TOKENS: [&[u8]; 26] = [
    b"\n",
    b"[[rule]]\n",
    b"name = \"x\"\n",
    b"when = { ",
    b"when.",
    b"do = { ",
    b" }\n",
    b"class = ",
    b"\"spam\"",
    b"[\"ham\", \"bulk\"]",
    b"not = { ",
    b"any = [",
    b"all = [",
    b"score = ",
    b"\">= 5\"",
    b"attachment.name = ",
    b"\"*.exe\"",
    b"header = { name = \"X\", is = \"y\" }",
    b"quarantine = \"f\"",
    b"reject = \"no {id}\"",
    b"stop = false\n",
    b"deliver = true",
    b"tag_subject = \"[x]\"",
    b"{{{{",
    b"99999999999999999999",
    b"\"\"\"",
];

#[test]
fn mutated_policies_are_read_or_refused() {
    let default = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules/policy.toml");
    let text = std::fs::read_to_string(default).expect("the default policy");
    crate::everything::ask(&text);
    // Each rule by itself: the whole file is broken by almost any mutation.
    let seeds: Vec<Vec<u8>> =
        text.split("[[rule]]").skip(1).map(|r| format!("[[rule]]{r}").into_bytes()).collect();
    assert!(seeds.len() > 30);
    crate::mutate::walk("policy", seeds, &TOKENS, |text| {
        crate::everything::ask(&String::from_utf8_lossy(text));
    });
}

//! Any bytes as a program that installs or unpacks itself: no panic, and an end within the limits.
//!
//! `cargo +nightly fuzz run content_program`

#![no_main]

use gauntlet_content::{DefectKind, Limits, NoHost, Root, unpack};
use libfuzzer_sys::fuzz_target;

/// Headers of a program with one section of code that it may write.
fn program() -> Vec<u8> {
    let mut out = vec![0; 0x200];
    out[..2].copy_from_slice(b"MZ");
    out[0x3c] = 0x40;
    out[0x40..0x48].copy_from_slice(b"PE\0\0\x4c\x01\x01\0");
    out[0x54..0x5a].copy_from_slice(&[0xe0, 0, 2, 1, 0x0b, 1]);
    for (at, value) in [
        (0x68, 0x1000u32),
        (0x74, 0x0040_0000),
        (0x78, 0x1000),
        (0x7c, 0x200),
        (0x94, 0x200),
        (0x140, 0x1000),
        (0x144, 0x1000),
        (0x148, 0x1000),
        (0x14c, 0x200),
        (0x15c, 0xe000_0020),
    ] {
        out[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    out
}

fuzz_target!(|input: &[u8]| {
    let limits = Limits { instructions_max: 1_000_000, ..Limits::default() };
    let code = program();
    let installer = b"\0\0\0\0\xef\xbe\xad\xdeNullsoftInst";
    let script = b"\xa3\x48\x4b\xbe\x98\x6c\x4a\xa9\x99\x4c\x53\x0a\x86\xd6\x48\x7dAU3!EA06";
    for before in [
        // Whole programs: what a walk begins with.
        &b""[..],
        b"MZ",
        &code,
        &[&code[..], installer].concat(),
        script,
        &[&code[..], b"InstallShield\0"].concat(),
        &[&code[..], b"data1.hdr\0data1.hdr\01.0\01000\0ISc("].concat(),
        b"\0\0\0\0\x12\x3a\0\x10\x19\x04\0\x10",
    ] {
        let bytes = [before, input].concat();
        let root = Root { name: "a.exe", declared_type: "", bytes: &bytes };
        let tree = unpack(&[root], &limits, &[], &mut NoHost);
        let failed = tree.unread().any(|(_, defect)| defect.kind == DefectKind::DecoderFailed);
        assert!(!failed, "a decoder panicked");
    }
});

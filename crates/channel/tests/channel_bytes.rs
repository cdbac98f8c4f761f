//! Any bytes as metadata, as a delta, as the manifest of a version. Shared with the fuzz target
//! `fuzz/fuzz_targets/channel.rs`.

use gauntlet_channel::bundle::check_name;
use gauntlet_channel::delta;
use gauntlet_channel::generations::Manifest;
use gauntlet_channel::instant;
use gauntlet_channel::metadata::{Envelope, RoleName, Root, Snapshot, Targets, Timestamp};
use gauntlet_channel::trust::Trusted;

/// Bytes that a delta may make here.
const MADE_MAX: u64 = 1 << 20;

/// The first byte says what the others are.
pub(crate) fn feed(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else { return };
    match choice % 8 {
        0 => {
            if let Ok(root) = read::<Root>(RoleName::Root, input) {
                for role in RoleName::ALL {
                    let keys = root.role(role).expect("checked");
                    assert!(keys.threshold > 0);
                }
            }
            if let Ok(mut trusted) = Trusted::begin(input) {
                assert!(trusted.next_root(input).is_err(), "the same version again");
            }
        }
        1 => drop(read::<Timestamp>(RoleName::Timestamp, input)),
        2 => drop(read::<Snapshot>(RoleName::Snapshot, input)),
        3 => {
            if let Ok(targets) = read::<Targets>(RoleName::Targets, input) {
                for (name, file) in &targets.targets {
                    check_name(name).expect("checked");
                    assert!(!file.path(name).contains(".."));
                }
            }
        }
        4 => applied(&[], input),
        5 => {
            let middle = input.len() / 2;
            applied(&input[..middle], &input[middle..]);
        }
        6 => {
            if let Ok(manifest) = Manifest::parse(input) {
                manifest.files.keys().for_each(|name| check_name(name).expect("checked"));
            }
        }
        _ => {
            let text = String::from_utf8_lossy(input);
            if let Some(unix_s) = instant::parse(&text) {
                assert_eq!(instant::format(unix_s), text);
            }
        }
    }
}

fn read<T: gauntlet_channel::metadata::Metadata>(
    role: RoleName,
    input: &[u8],
) -> Result<T, gauntlet_channel::Error> {
    let envelope = Envelope::parse(role, input)?;
    // What was read is written, and read as the same.
    let again = Envelope::parse(role, &envelope.to_bytes());
    assert!(again.is_err() || again.is_ok_and(|again| again == envelope));
    envelope.read()
}

fn applied(from: &[u8], mut bytes: &[u8]) {
    let mut out = Vec::new();
    if let Ok(made) = delta::apply(from, &mut bytes, &mut out, MADE_MAX) {
        assert_eq!(made.length, out.len() as u64);
    }
    assert!(out.len() as u64 <= MADE_MAX);
}

//! The journal of corrections.

use super::*;
use gauntlet_engine::classifier::group::GROUPS;
use gauntlet_engine::signatures::{Fingerprint, Kind};

fn correction(spam: bool, at: i64) -> Correction {
    let features = vec![1, 2, 3];
    let sketch = std::array::from_fn(|i| i as u16);
    let fingerprints = vec![Fingerprint { kind: Kind::Text, size: 50, sketch }];
    let ends = [3; GROUPS];
    let (base, identities) = (0.5, vec![4, 5]);
    Correction { spam, reporter: 7, at, base, features, ends, identities, fingerprints }
}

#[test]
fn what_was_said_is_there_after_opening_again_and_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Corrections::open(folder.path()).unwrap();
    assert_eq!(journal.say([([1; 16], correction(true, 1))]).unwrap(), 1);
    assert_eq!(journal.say([([1; 16], correction(true, 2))]).unwrap(), 0, "said before");
    assert_eq!(journal.say([([2; 16], correction(true, 3))]).unwrap(), 1);
    assert_eq!(journal.say([([1; 16], correction(false, 4))]).unwrap(), 1, "another opinion");
    assert!(journal.forget(&[2; 16], 3).unwrap() && !journal.forget(&[2; 16], 3).unwrap());
    let in_effect = journal.in_effect().clone();
    drop(journal);
    let again = Corrections::open(folder.path()).unwrap();
    assert_eq!(*again.in_effect(), in_effect);
    assert_eq!(in_effect.into_values().collect::<Vec<_>>(), [correction(false, 4)]);
}

#[test]
fn a_policy_neither_overrules_people_nor_crowds_them_out() {
    let folder = tempfile::tempdir().unwrap();
    let by = |reporter, spam, at| Correction { reporter, ..correction(spam, at) };
    let rule = gauntlet_engine::corrections::policy_reporter_id("r");
    let id = |n: u32| -> MessageId {
        std::array::from_fn(|i| n.to_le_bytes().get(i).copied().unwrap_or(0))
    };
    let mut journal = Corrections::open(folder.path()).unwrap();
    assert_eq!(journal.say([(id(1), by(7, false, 1))]).unwrap(), 1);
    assert_eq!(journal.say([(id(1), by(rule, true, 2))]).unwrap(), 0, "a person said so");
    assert_eq!(journal.say([(id(2), by(rule, true, 2))]).unwrap(), 1);
    assert_eq!(journal.say([(id(2), by(7, false, 3))]).unwrap(), 1, "a person corrects it");
    let many = POLICY_CORRECTIONS_MAX as u32 + 10;
    journal.say((3..many + 3).map(|n| (id(n), by(rule, true, 10)))).unwrap();
    assert_eq!(journal.in_effect().len(), 2 + POLICY_CORRECTIONS_MAX);
    let in_effect = Corrections::read(folder.path()).unwrap();
    assert_eq!(&in_effect, journal.in_effect());
    assert!(!in_effect[&id(1)].spam && !in_effect[&id(2)].spam);
}

#[test]
fn a_script_that_teaches_without_end_crowds_out_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let by = |reporter, at| Correction { reporter, ..correction(true, at) };
    let id = |n: u32, who: u8| -> MessageId {
        let mut id = [who; 16];
        id[..4].copy_from_slice(&n.to_le_bytes());
        id
    };
    let mut journal = Corrections::open(folder.path()).unwrap();
    journal.say((0..300).map(|n| (id(n, 1), by(0, 1)))).unwrap();
    journal.say((0..50).map(|n| (id(n, 2), by(7, 2)))).unwrap();
    for batch in 0..20 {
        let numbers = batch * 5_000..(batch + 1) * 5_000;
        journal.say(numbers.map(|n| (id(n, 3), by(9, 10 + i64::from(n))))).unwrap();
    }
    let of = |who: u64| journal.in_effect().values().filter(|c| c.reporter == who).count();
    assert_eq!((of(0), of(7), of(9)), (300, 50, REPORTER_CORRECTIONS_MAX));
    let size = std::fs::metadata(journal_path(folder.path())).unwrap().len();
    assert!(size < 2_000_000, "what no longer counts is dropped from the file: {size} bytes");
}

#[test]
fn what_an_earlier_build_wrote_is_still_read() {
    let mut payload = vec![7; 16];
    payload.push(1);
    payload.extend_from_slice(&7_u64.to_le_bytes());
    payload.extend_from_slice(&5_i64.to_le_bytes());
    payload.extend_from_slice(&2.0_f32.to_le_bytes());
    payload.extend_from_slice(&[3; GROUPS].map(u16::to_le_bytes).concat());
    payload.extend_from_slice(&0_u32.to_le_bytes());
    payload.extend_from_slice(&[1_u32, 2, 3].map(u32::to_le_bytes).concat());
    let (id, read) = parse(&payload).unwrap();
    let Stated::Correction(read) = read else { panic!("{read:?}") };
    assert!(id == [7; 16] && read.spam && read.features == [1, 2, 3]);
    let weights = gauntlet_engine::fusion::Weights::default();
    let expected = weights.intercept + 2.0 * weights.classifier;
    assert!(read.identities.is_empty() && (f64::from(read.base) - expected).abs() < 1e-5);
}

#[test]
fn a_crash_at_any_byte_loses_only_the_record_it_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = journal_path(folder.path());
    let mut journal = Corrections::open(folder.path()).unwrap();
    journal.say([([1; 16], correction(true, 1))]).unwrap();
    let first = std::fs::metadata(&path).unwrap().len();
    journal.say([([2; 16], correction(true, 2))]).unwrap();
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for cut in first as usize..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let mut journal = Corrections::open(folder.path()).unwrap();
        assert_eq!(journal.in_effect().len(), 1, "cut at {cut}");
        journal.say([([3; 16], correction(false, 3))]).unwrap();
        drop(journal);
        assert_eq!(Corrections::open(folder.path()).unwrap().in_effect().len(), 2);
    }
    for cut in 0..HEADER_BYTES as usize {
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert!(Corrections::open(folder.path()).unwrap().in_effect().is_empty());
    }
}

#[test]
fn damage_in_the_middle_loses_only_the_record_that_it_hit() {
    let folder = tempfile::tempdir().unwrap();
    let path = journal_path(folder.path());
    let mut journal = Corrections::open(folder.path()).unwrap();
    let mut ends = Vec::new();
    for n in 1..=3 {
        journal.say([([n; 16], correction(true, n.into()))]).unwrap();
        ends.push(std::fs::metadata(&path).unwrap().len() as usize);
    }
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for hit in ends[0]..ends[1] {
        let mut bytes = whole.clone();
        bytes[hit] ^= 0x55;
        std::fs::write(&path, &bytes).unwrap();
        let mut journal = Corrections::open(folder.path()).unwrap();
        let known: Vec<u8> = journal.in_effect().keys().map(|id| id[0]).collect();
        assert_eq!(known, [1, 3], "damaged at {hit}");
        journal.say([([4; 16], correction(false, 4))]).unwrap();
        drop(journal);
        assert_eq!(Corrections::read(folder.path()).unwrap().len(), 3);
    }
}

#[test]
fn records_that_no_longer_count_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Corrections::open(folder.path()).unwrap();
    for i in 0..1_200 {
        journal.say([([1; 16], correction(i % 2 == 0, i))]).unwrap();
    }
    drop(journal);
    let size = std::fs::metadata(journal_path(folder.path())).unwrap().len();
    assert!(size < 160_000, "{size}");
    assert_eq!(Corrections::open(folder.path()).unwrap().in_effect().len(), 1);
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = journal_path(folder.path());
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "From: somebody\n\nhello").unwrap();
    assert!(matches!(Corrections::open(folder.path()), Err(CorrectionsError::NotAJournal(_))));
    std::fs::write(&path, [&MAGIC[..], &[99, 0, 0, 0]].concat()).unwrap();
    let error = Corrections::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("format 99"), "{error}");
    assert!(Corrections::read(&folder.path().join("none")).unwrap().is_empty());
}

//! The attacks that The Update Framework lists (specification, section 1.5.2), each against a node:
//! it says what is wrong, and what is in force stays.

use std::fs;

use gauntlet_channel::Error;
use gauntlet_channel::keys::SigningKey;
use gauntlet_channel::metadata::{Envelope, RoleName};
use gauntlet_channel::pull::FolderMirror;
use gauntlet_channel::repository::{Change, Lifetimes, Repository, Staged};
use serde_json::Value;

use crate::site::{DAY_S, HOUR_S, Site, Tampering, copy_folder};

/// A node that has version 2, and a channel that has version 3.
fn begun() -> Site {
    let site = Site::new();
    site.publish(&[("rules/a.cf", b"body A /one/\n")]);
    site.pull().unwrap();
    site.publish(&[("rules/a.cf", b"body A /two/\n"), ("rules/b.cf", b"body B /b/\n")]);
    site
}

/// Pulls through a mirror that changes files; the node must refuse, and keep what it has.
fn refused(site: &Site, change: impl FnMut(&str, Vec<u8>) -> Option<Vec<u8>>) -> Error {
    let before = site.in_force();
    let mirror = FolderMirror::new(&site.channel());
    let error = site.pull_from(&mut Tampering(mirror, change)).unwrap_err();
    assert_eq!(site.in_force(), before, "{error}");
    error
}

/// And then an honest mirror is believed again.
fn recovers(site: &Site) {
    site.pull().unwrap();
    assert_eq!(site.in_force()["rules/a.cf"], b"body A /two/\n");
}

/// Metadata with another content, and the signatures that stood there before.
fn altered(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(bytes).unwrap();
    change(&mut value["signed"]);
    serde_json::to_vec(&value).unwrap()
}

#[test]
fn arbitrary_software_is_refused() {
    let site = begun();
    let error = refused(&site, |name, bytes| {
        // The file and all ways to it.
        let is_file = name.starts_with("targets/") || name.starts_with("deltas/");
        Some(if is_file { vec![b'x'; bytes.len()] } else { bytes })
    });
    assert!(matches!(error, Error::NotAsSigned { .. }), "{error}");
    for role in ["timestamp.json", "snapshot.json", "targets.json"] {
        // A node that does not have the metadata yet.
        let site = begun();
        let error = refused(&site, |name, bytes| {
            let other = |v: &mut Value| v["x-else"] = "x".into();
            Some(if name.ends_with(role) { altered(&bytes, other) } else { bytes })
        });
        let is_it = matches!(error, Error::Signatures { .. } | Error::NotAsSigned { .. });
        assert!(is_it, "{role}: {error}");
    }
    recovers(&site);
}

#[test]
fn a_channel_of_other_keys_is_refused() {
    let (site, other) = (begun(), Site::new());
    other.publish(&[("rules/a.cf", b"body EVIL /./\n")]);
    other.publish(&[("rules/a.cf", b"body EVIL /../\n")]);
    let before = site.in_force();
    let error = site.pull_from(&mut FolderMirror::new(&other.channel())).unwrap_err();
    assert!(matches!(error, Error::Signatures { valid: 0, .. }), "{error}");
    assert_eq!(site.in_force(), before);
    recovers(&site);
}

#[test]
fn a_rolled_back_channel_is_refused() {
    let site = begun();
    let old = site.freeze("old");
    recovers(&site);
    site.publish(&[("rules/a.cf", b"body A /two/\n")]);
    site.pull().unwrap();
    let before = site.in_force();
    let error = site.pull_from(&mut FolderMirror::new(&old)).unwrap_err();
    assert!(matches!(error, Error::RolledBack { .. }), "{error}");
    assert_eq!(site.in_force(), before);
    recovers(&site);
}

#[test]
fn a_rolled_back_snapshot_with_a_timestamp_of_the_stolen_key_is_refused() {
    let site = begun();
    let old = site.freeze("old");
    recovers(&site);
    site.publish(&[("rules/a.cf", b"body A /two/\n")]);
    site.pull().unwrap();
    // The thief of the timestamp's key signs the old snapshot as the newest.
    let key = SigningKey::load(&site.path("keys/timestamp-1.pem")).unwrap();
    let bytes = fs::read(old.join("timestamp.json")).unwrap();
    let mut value: Value = serde_json::from_slice(&bytes).unwrap();
    value["signed"]["version"] = 1_000.into();
    let mut forged = Envelope::unsigned(value["signed"].clone());
    forged.sign(&key);
    fs::write(old.join("timestamp.json"), forged.to_bytes()).unwrap();
    let error = site.pull_from(&mut FolderMirror::new(&old)).unwrap_err();
    assert!(matches!(&error, Error::RolledBack { what, .. } if what == "snapshot"), "{error}");
    recovers(&site);
}

#[test]
fn a_mirror_that_stands_still_is_told_when_its_timestamp_expires() {
    let mut site = begun();
    site.pull().unwrap();
    let frozen = site.freeze("frozen");
    site.now_s += 49 * HOUR_S;
    let before = site.in_force();
    let error = site.pull_from(&mut FolderMirror::new(&frozen)).unwrap_err();
    assert!(matches!(&error, Error::Expired { what, .. } if what == "timestamp"), "{error}");
    assert!(error.to_string().contains("the clock is wrong"), "{error}");
    assert_eq!(site.in_force(), before);
    let mut channel = Repository::open(&site.channel()).unwrap();
    channel.refresh(&site.keys(), Lifetimes::default(), site.now_s).unwrap();
    recovers(&site);
}

#[test]
fn a_clock_an_hour_wrong_changes_nothing_and_one_of_years_is_told() {
    for (wrong_s, counts) in [(HOUR_S, true), (-HOUR_S, true), (400 * DAY_S, false)] {
        let mut site = begun();
        site.now_s += wrong_s;
        assert_eq!(site.pull().is_ok(), counts, "{wrong_s}");
    }
}

#[test]
fn metadata_of_different_versions_do_not_mix() {
    let site = begun();
    let old = site.freeze("old");
    site.publish(&[("rules/a.cf", b"body A /two/\n"), ("rules/c.cf", b"body C /c/\n")]);
    for role in [RoleName::Snapshot, RoleName::Targets] {
        let ending = format!(".{}.json", role.name());
        // The one before the newest, under the newest's name.
        let mixed = (1..20).map(|v| old.join(role.file_name(v))).rfind(|p| p.is_file()).unwrap();
        let mixed = fs::read(mixed).unwrap();
        let error = refused(&site, |name, bytes| {
            Some(if name.ends_with(&ending) { mixed.clone() } else { bytes })
        });
        assert!(matches!(error, Error::NotAsSigned { .. } | Error::Fetch { .. }), "{error}");
    }
    recovers(&site);
}

#[test]
fn endless_data_end_at_the_signed_length() {
    let site = begun();
    let mut channel = Repository::open(&site.channel()).unwrap();
    let renewed =
        channel.change_keys(&[Change::Renew], &site.keys(), Lifetimes::default(), site.now_s);
    assert_eq!(renewed.unwrap(), Staged::InForce(2));
    drop(channel);
    for part in ["timestamp.json", "2.root.json", "snapshot.json", "targets.json", "targets/"] {
        let error = refused(&site, |name, mut bytes| {
            if name.contains(part) || (part == "targets/" && name.contains("deltas/")) {
                bytes.extend(vec![b' '; 9 << 20]);
            }
            Some(bytes)
        });
        assert!(matches!(error, Error::Fetch { .. }), "{part}: {error}");
        if part == "timestamp.json" {
            assert!(error.to_string().contains("larger than 16384 bytes"), "{error}");
        }
    }
    recovers(&site);
}

#[test]
fn a_file_of_another_name_is_not_taken_for_it() {
    let site = begun();
    // b's bytes for a's: both are signed, but not under this name.
    let swapped = fs::read_dir(site.channel().join("targets/rules")).unwrap().flatten();
    let b = swapped.map(|e| e.path()).find(|p| p.to_string_lossy().ends_with(".b.cf")).unwrap();
    let b = fs::read(b).unwrap();
    let error = refused(&site, |name, bytes| match name {
        _ if name.ends_with(".a.cf") => Some(b.clone()),
        _ if name.starts_with("deltas/") => None,
        _ => Some(bytes),
    });
    assert!(matches!(error, Error::NotAsSigned { .. }), "{error}");
    recovers(&site);
}

#[test]
fn a_mirror_without_a_file_is_told() {
    let site = begun();
    for part in ["timestamp.json", ".snapshot.json", ".targets.json", "targets/"] {
        let gone =
            |name: &str| name.contains(part) || (part == "targets/" && name.contains("deltas"));
        let error = refused(&site, |name, bytes| (!gone(name)).then_some(bytes));
        assert!(error.to_string().contains("the mirror does not have it"), "{part}: {error}");
    }
    recovers(&site);
}

#[test]
fn one_stolen_key_of_two_makes_no_root() {
    let site = begun();
    let thief = SigningKey::create(&site.path("thief.pem")).unwrap();
    let one = SigningKey::load(&site.path("keys/root-1.pem")).unwrap();
    let bytes = fs::read(site.channel().join("1.root.json")).unwrap();
    let mut value: Value = serde_json::from_slice(&bytes).unwrap();
    let signed = &mut value["signed"];
    signed["version"] = 2.into();
    let id = thief.public().id();
    signed["keys"][&id] = serde_json::to_value(thief.public()).unwrap();
    for role in RoleName::ALL {
        signed["roles"][role.name()] = serde_json::json!({"keyids": [id], "threshold": 1});
    }
    let mut forged = Envelope::unsigned(signed.clone());
    forged.sign(&one);
    forged.sign(&thief);
    fs::write(site.channel().join("2.root.json"), forged.to_bytes()).unwrap();
    let before = site.in_force();
    let error = site.pull().unwrap_err();
    assert!(matches!(error, Error::Signatures { valid: 1, threshold: 2, .. }), "{error}");
    assert_eq!(site.in_force(), before);
    fs::remove_file(site.channel().join("2.root.json")).unwrap();
    recovers(&site);
}

#[test]
fn the_same_key_under_two_ids_counts_once() {
    let site = Site::new();
    let one = SigningKey::load(&site.path("keys/root-1.pem")).unwrap();
    let mut value: Value = serde_json::from_slice(&site.root()).unwrap();
    let signed = &mut value["signed"];
    let (id, second) = (one.public().id(), "f".repeat(64));
    signed["keys"] = serde_json::json!({&id: one.public(), &second: one.public()});
    for role in RoleName::ALL {
        signed["roles"][role.name()] = serde_json::json!({"keyids": [id, second], "threshold": 2});
    }
    let mut twice = Envelope::unsigned(signed.clone());
    twice.sign(&one);
    let mut value: Value = serde_json::from_slice(&twice.to_bytes()).unwrap();
    let mut again = value["signatures"][0].clone();
    again["keyid"] = second.into();
    value["signatures"].as_array_mut().unwrap().push(again);
    let bytes = serde_json::to_vec(&value).unwrap();
    let error = gauntlet_channel::trust::Trusted::begin(&bytes).unwrap_err();
    assert!(matches!(error, Error::Signatures { valid: 1, threshold: 2, .. }), "{error}");
}

#[test]
fn after_a_rotation_the_stolen_key_signs_nothing_more() {
    let site = begun();
    recovers(&site);
    let mut channel = Repository::open(&site.channel()).unwrap();
    let keys = site.keys();
    let (lifetimes, now_s) = (Lifetimes::default(), site.now_s);
    // A thief counted the timestamp up beyond reach, and the node has seen it.
    let stolen = SigningKey::load(&site.path("keys/timestamp-1.pem")).unwrap();
    let thief = site.freeze("thief");
    let bytes = fs::read(thief.join("timestamp.json")).unwrap();
    let mut value: Value = serde_json::from_slice(&bytes).unwrap();
    value["signed"]["version"] = u64::from(u32::MAX).into();
    let mut forged = Envelope::unsigned(value["signed"].clone());
    forged.sign(&stolen);
    fs::write(thief.join("timestamp.json"), forged.to_bytes()).unwrap();
    site.pull_from(&mut FolderMirror::new(&thief)).unwrap();
    // The new key ends it, forward and backward.
    let next = keys.create(RoleName::Timestamp).unwrap();
    let change = [Change::Replace(RoleName::Timestamp, next.public())];
    let staged = channel.change_keys(&change, &keys, lifetimes, now_s).unwrap();
    assert_eq!(staged, Staged::InForce(2));
    channel.refresh(&keys, lifetimes, now_s).unwrap();
    channel.verify(now_s).unwrap();
    drop(channel);
    site.pull().unwrap();
    let error = site.pull_from(&mut FolderMirror::new(&thief)).unwrap_err();
    assert!(matches!(error, Error::Signatures { valid: 0, .. }), "{error}");
    site.publish(&[("rules/a.cf", b"body A /two/\n")]);
    recovers(&site);
}

#[test]
fn a_subscription_is_not_led_to_another_root() {
    let (site, other) = (begun(), Site::new());
    let error = gauntlet_channel::subscription::Subscription::begin(
        &site.path("node"),
        "file:///channel",
        &other.root(),
    );
    assert!(error.unwrap_err().to_string().contains("subscribed with another root"));
    let elsewhere = site.path("elsewhere");
    copy_folder(&site.path("node"), &elsewhere);
    recovers(&site);
}

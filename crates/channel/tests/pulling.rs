//! What a node fetches, keeps and refuses.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;

use gauntlet_channel::Error;
use gauntlet_channel::pull::{Answer, Costs, FolderMirror, Mirror, Outcome, PullOptions, pull};
use gauntlet_channel::repository::PublishOptions;

use crate::site::{Site, Tampering};

/// Lines that a delta of a few bytes changes.
fn list(lines: u32, last: &str) -> Vec<u8> {
    let line = |n: u32| format!("host{:08x}.example\n", n.wrapping_mul(2_654_435_761));
    (0..lines).map(line).chain([last.to_owned()]).collect::<String>().into_bytes()
}

#[test]
fn a_small_change_costs_a_small_delta_and_what_stays_costs_nothing() {
    let site = Site::new();
    let (old, new) = (list(50_000, "a.example\n"), list(50_000, "b.example\n"));
    let stays = list(1_000, "same\n");
    site.publish(&[
        ("urls/spam/list", &old),
        ("rules/a.cf", b"body A /a/\n"),
        ("hashes/h", &stays),
    ]);
    let (outcome, costs) = site.pull().unwrap();
    assert_eq!(outcome, Outcome::Ready(2));
    assert_eq!((costs.linked, costs.deltas, costs.whole), (0, 2, 1), "{costs:?}");
    let inode = |name| {
        use std::os::unix::fs::MetadataExt;
        let version = site.node().generations.current().unwrap();
        let folder = site.path("node/generations").join(version.to_string());
        fs::metadata(folder.join(name)).unwrap().ino()
    };
    let before = inode("hashes/h");
    site.publish(&[
        ("urls/spam/list", &new),
        ("rules/a.cf", b"body A /a/\n"),
        ("hashes/h", &stays),
    ]);
    let (outcome, costs) = site.pull().unwrap();
    assert_eq!(outcome, Outcome::Ready(3));
    assert_eq!((costs.linked, costs.deltas, costs.whole), (2, 1, 0), "{costs:?}");
    assert!(costs.bytes < 8_000, "{costs:?} for a list of {} bytes", new.len());
    assert_eq!(site.in_force()["urls/spam/list"], new);
    assert_eq!(inode("hashes/h"), before, "what did not change is the same file");
    assert_eq!(site.pull().unwrap().0, Outcome::Unchanged);
}

#[test]
fn a_node_that_was_away_takes_a_delta_from_what_it_has() {
    let site = Site::new();
    site.publish(&[("urls/spam/list", &list(20_000, "1\n"))]);
    site.pull().unwrap();
    for version in 2..6 {
        site.publish(&[("urls/spam/list", &list(20_000, &format!("{version}\n")))]);
    }
    let (_, costs) = site.pull().unwrap();
    assert_eq!((costs.deltas, costs.whole), (1, 0), "{costs:?}");
    assert!(costs.bytes < 8_000, "{costs:?}");
    // Longer away than deltas reach.
    for version in 6..20 {
        site.publish(&[("urls/spam/list", &list(20_000, &format!("{version}\n")))]);
    }
    let (_, costs) = site.pull().unwrap();
    assert!(costs.bytes > 20_000, "{costs:?}");
    assert_eq!(site.in_force()["urls/spam/list"], list(20_000, "19\n"));
}

#[test]
fn a_delta_that_is_of_no_use_is_replaced_by_the_whole_file() {
    let site = Site::new();
    site.publish(&[("urls/spam/list", &list(5_000, "1\n"))]);
    site.pull().unwrap();
    site.publish(&[("urls/spam/list", &list(5_000, "2\n"))]);
    let mirror = FolderMirror::new(&site.channel());
    let mut damaging = Tampering(mirror, |name: &str, mut bytes: Vec<u8>| {
        if name.starts_with("deltas/") {
            bytes[9] ^= 1;
        }
        Some(bytes)
    });
    let (outcome, costs) = site.pull_from(&mut damaging).unwrap();
    assert_eq!((outcome, costs.whole), (Outcome::Ready(3), 1));
    assert_eq!(site.in_force()["urls/spam/list"], list(5_000, "2\n"));
}

/// A mirror with tags, as web servers have them.
struct Tagging(FolderMirror, Vec<String>);

impl Mirror for Tagging {
    fn fetch(
        &mut self,
        name: &str,
        bytes_max: u64,
        etag: Option<&str>,
        out: &mut (dyn Write + Send),
    ) -> Result<Answer, String> {
        let mut bytes = Vec::new();
        let answer = self.0.fetch(name, bytes_max, None, &mut bytes)?;
        let tag = format!("\"{}\"", gauntlet_channel::hex::sha256(&bytes));
        self.1.push(name.to_owned());
        match answer {
            Answer::Whole(_) if etag == Some(tag.as_str()) => Ok(Answer::Same),
            Answer::Whole(_) => {
                out.write_all(&bytes).unwrap();
                Ok(Answer::Whole(Some(tag)))
            }
            other => Ok(other),
        }
    }
}

#[test]
fn a_pull_without_news_is_one_request_without_a_body() {
    let mut site = Site::new();
    site.publish(&[("rules/a.cf", b"body A /a/\n")]);
    let mut mirror = Tagging(FolderMirror::new(&site.channel()), Vec::new());
    site.pull_from(&mut mirror).unwrap();
    mirror.1.clear();
    let (outcome, costs) = site.pull_from(&mut mirror).unwrap();
    assert_eq!(outcome, Outcome::Unchanged);
    assert_eq!(costs, Costs { requests: 1, ..Costs::default() });
    assert_eq!(mirror.1, ["timestamp.json"]);
    // Once a day the roots are asked for, whatever the mirror says.
    site.now_s += 90_000;
    site.pull_from(&mut mirror).unwrap();
    assert!(mirror.1.iter().any(|name| name == "2.root.json"), "{:?}", mirror.1);
    // "Nothing new" for ever is a freeze.
    site.now_s += 90_000;
    let error = site.pull_from(&mut mirror).unwrap_err();
    assert!(matches!(error, Error::Expired { .. }), "{error}");
}

#[test]
fn a_pull_that_broke_off_goes_on_though_the_timestamp_is_known() {
    let site = Site::new();
    site.publish(&[("rules/a.cf", b"body A /a/\n")]);
    let mut calls = 0;
    let mut seen = BTreeSet::new();
    // Broken off at each request in turn.
    loop {
        let mut mirror = Tagging(FolderMirror::new(&site.channel()), Vec::new());
        let mut count = 0;
        let mut failing = Failing(&mut mirror, &mut count, calls);
        match site.pull_from(&mut failing) {
            Err(error) => assert!(seen.insert(error.to_string()), "{error}"),
            Ok((outcome, _)) => {
                assert_eq!(outcome, Outcome::Ready(2));
                break;
            }
        }
        calls += 1;
        assert!(calls < 50);
    }
    assert!(calls >= 4 && site.in_force().len() == 1, "{calls}");
}

/// Fails at the request of this number.
struct Failing<'m>(&'m mut dyn Mirror, &'m mut u32, u32);

impl Mirror for Failing<'_> {
    fn fetch(
        &mut self,
        name: &str,
        bytes_max: u64,
        etag: Option<&str>,
        out: &mut (dyn Write + Send),
    ) -> Result<Answer, String> {
        *self.1 += 1;
        if *self.1 > self.2 {
            return Err(format!("request {} broke off", *self.1));
        }
        self.0.fetch(name, bytes_max, etag, out)
    }
}

#[test]
fn a_bundle_for_a_newer_program_changes_nothing() {
    let site = Site::new();
    site.publish(&[("rules/a.cf", b"body A /a/\n")]);
    site.pull().unwrap();
    let options = PublishOptions { requires: "99.0.0".into(), ..Site::options() };
    site.publish_with(&[("rules/a.cf", b"body A /b/\n")], &options);
    let error = site.pull().unwrap_err();
    assert!(matches!(error, Error::NewerProgram { version: 3, .. }), "{error}");
    assert!(error.to_string().contains("needs gauntlet 99.0.0"), "{error}");
    assert_eq!(site.in_force()["rules/a.cf"], b"body A /a/\n");
}

#[test]
fn a_version_larger_than_the_subscription_allows_is_not_begun() {
    let site = Site::new();
    site.publish(&[("hashes/h", &vec![b'x'; 100_000])]);
    let mut node = site.node();
    let options = PullOptions { bytes_max: 99_999, ..PullOptions::default() };
    let mut mirror = Tagging(FolderMirror::new(&site.channel()), Vec::new());
    let error = pull(&mut node, &mut mirror, &options, site.now_s).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(!mirror.1.iter().any(|name| name.contains('/')), "{:?}", mirror.1);
}

#[test]
fn pinned_rejected_and_rolled_back_versions_are_not_taken() {
    let site = Site::new();
    for (version, text) in [(2, "one"), (3, "two"), (4, "three")] {
        site.publish(&[("rules/a.cf", text.as_bytes())]);
        assert_eq!(site.pull().unwrap().0, Outcome::Ready(version));
    }
    let mut node = site.node();
    assert!(node.roll_back(Some(9), "no").is_err());
    assert_eq!(node.roll_back(None, "half of the ham is spam").unwrap(), Some(3));
    drop(node);
    assert_eq!(site.in_force()["rules/a.cf"], b"two");
    assert_eq!(site.pull().unwrap().0, Outcome::NotWanted(4));
    assert_eq!(site.in_force()["rules/a.cf"], b"two");
    // What comes after the rejected one is taken.
    site.publish(&[("rules/a.cf", b"four")]);
    assert_eq!(site.pull().unwrap().0, Outcome::Ready(5));
    let mut node = site.node();
    node.state.pinned = Some(5);
    node.save().unwrap();
    drop(node);
    site.publish(&[("rules/a.cf", b"five")]);
    assert_eq!(site.pull().unwrap().0, Outcome::NotWanted(6));
    // Back to the beginning: nothing of the channel judges.
    let mut node = site.node();
    assert_eq!(node.roll_back(None, "a").unwrap(), Some(3));
    assert_eq!(node.roll_back(None, "b").unwrap(), Some(2));
    assert_eq!(node.roll_back(None, "c").unwrap(), None);
    assert!(node.roll_back(None, "d").is_err());
    assert!(site.in_force().is_empty());
}

#[test]
fn old_generations_go_and_the_one_in_force_stays() {
    let site = Site::new();
    for version in 2..8 {
        site.publish(&[("rules/a.cf", format!("{version}").as_bytes())]);
        site.pull().unwrap();
        let node = site.node();
        node.generations.keep(3).unwrap();
    }
    let node = site.node();
    assert_eq!(node.generations.versions(), [5, 6, 7]);
    node.generations.promote(5).unwrap();
    node.generations.keep(1).unwrap();
    assert_eq!(node.generations.versions(), [5, 6, 7], "newer ones may be on trial");
    assert!(node.generations.remove(5).is_err());
}

#[test]
fn a_damaged_generation_is_fetched_again() {
    let site = Site::new();
    site.publish(&[("rules/a.cf", b"body A /a/\n"), ("rules/b.cf", b"body B /b/\n")]);
    site.pull().unwrap();
    let path = site.path("node/generations/2/rules/a.cf");
    fs::write(&path, b"cut").unwrap();
    assert!(site.node().generations.check(2).is_err());
    assert!(site.node().generations.promote(2).is_err());
    assert_eq!(site.pull().unwrap().0, Outcome::Ready(2));
    assert_eq!(site.in_force()["rules/a.cf"], b"body A /a/\n");
}

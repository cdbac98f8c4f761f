//! What a publisher may do, and what is refused.

use std::fs;

use gauntlet_channel::Error;
use gauntlet_channel::metadata::RoleName;
use gauntlet_channel::mirror;
use gauntlet_channel::pull::{FolderMirror, Outcome};
use gauntlet_channel::repository::{
    Change, KeyFolder, Lifetimes, PublishOptions, Repository, Staged,
};

use crate::site::{DAY_S, Site};

#[test]
fn a_channel_verifies_and_damage_is_found() {
    let site = Site::new();
    for text in ["one", "two two two two two two two two", "three"] {
        site.publish(&[("rules/a.cf", text.repeat(100).as_bytes()), ("urls/spam/x", b"x")]);
    }
    let channel = Repository::open(&site.channel()).unwrap();
    channel.verify(site.now_s).unwrap();
    assert!(Repository::open(&site.channel()).is_err(), "one publisher at a time");
    let mut damaged = 0;
    for folder in ["targets/rules", "targets/urls/spam", "deltas"] {
        for entry in fs::read_dir(site.channel().join(folder)).unwrap().flatten() {
            let good = fs::read(entry.path()).unwrap();
            let mut bad = good.clone();
            bad[0] ^= 1;
            fs::write(entry.path(), &bad).unwrap();
            damaged += u32::from(channel.verify(site.now_s).is_err());
            fs::write(entry.path(), &good).unwrap();
        }
    }
    assert!(damaged >= 3, "{damaged}");
    channel.verify(site.now_s).unwrap();
}

#[test]
fn a_root_that_every_node_refuses_is_found() {
    let site = Site::new();
    site.publish(&[("rules/a.cf", b"body A /one/\n")]);
    let root = |version| site.channel().join(RoleName::Root.file_name(version));
    fs::copy(root(1), root(2)).unwrap();
    let refused = site.pull().unwrap_err().to_string();
    let channel = Repository::open(&site.channel()).unwrap();
    assert_eq!(channel.verify(site.now_s).unwrap_err().to_string(), refused);
    fs::remove_file(root(2)).unwrap();
    channel.verify(site.now_s).unwrap();
}

/// Without the check these would never end.
#[test]
fn pipes_and_devices_in_place_of_files_are_named() {
    let site = Site::new();
    site.publish(&[("rules/a.cf", b"body A /one/\n")]);
    let channel = Repository::open(&site.channel()).unwrap();
    let file = site.channel().join(channel.targets().targets["rules/a.cf"].path("rules/a.cf"));
    let timestamp = site.channel().join("timestamp.json");
    let pipe = site.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (place, target, what) in [
        (&file, std::path::Path::new("/dev/zero"), "a device in place of a file"),
        (&file, pipe.as_path(), "a pipe in place of a file"),
        (&timestamp, pipe.as_path(), "a pipe in place of a file"),
    ] {
        let good = fs::read(place).unwrap();
        fs::remove_file(place).unwrap();
        std::os::unix::fs::symlink(target, place).unwrap();
        let said = channel.verify(site.now_s).unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
        let said = site.pull().unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
        fs::remove_file(place).unwrap();
        fs::write(place, good).unwrap();
    }
    channel.verify(site.now_s).unwrap();
    site.pull().unwrap();
}

#[test]
fn links_and_pipes_in_the_folder_are_refused_by_name_and_nothing_is_published() {
    let site = Site::new();
    site.publish(&[("rules/a.cf", b"a")]);
    let (content, outside) = (site.path("content"), site.path("outside"));
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), b"secret").unwrap();
    let links = [
        ("rules/b.cf", outside.join("secret")),
        ("urls", outside.clone()),
        ("rules/c.cf", content.join("rules/a.cf")),
        ("rules/d.cf", outside.join("not there")),
    ];
    for (name, target) in links {
        let link = content.join(name);
        std::os::unix::fs::symlink(target, &link).unwrap();
        let mut channel = Repository::open(&site.channel()).unwrap();
        let published = channel.publish(&content, &site.keys(), &Site::options(), site.now_s);
        let said = published.unwrap_err().to_string();
        assert!(said.contains(&link.display().to_string()), "{said}");
        assert!(said.contains("symbolic link"), "{said}");
        assert_eq!(channel.targets().version, 2);
        fs::remove_file(&link).unwrap();
    }
    let pipe = content.join("rules/e.cf");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut channel = Repository::open(&site.channel()).unwrap();
    let published = channel.publish(&content, &site.keys(), &Site::options(), site.now_s);
    assert!(published.unwrap_err().to_string().contains("no file"));
}

#[test]
fn names_that_nothing_reads_are_refused_and_change_nothing() {
    let site = Site::new();
    site.publish(&[("rules/a.cf", b"a")]);
    let content = site.path("content");
    for bad in ["README", "rules/.hidden", "rules/a b", "other/a"] {
        let path = content.join(bad);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"x").unwrap();
        let mut channel = Repository::open(&site.channel()).unwrap();
        let published = channel.publish(&content, &site.keys(), &Site::options(), site.now_s);
        assert!(published.is_err(), "{bad}");
        assert_eq!(channel.targets().version, 2);
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(site.pull().unwrap().0, Outcome::Ready(2));
}

#[test]
fn old_versions_are_removed_and_the_newest_stays_whole() {
    let site = Site::new();
    let options =
        PublishOptions { keep_versions: 2, delta_versions: 2, ..PublishOptions::default() };
    for version in 0..10 {
        site.publish_with(&[("rules/a.cf", format!("rule {version}").as_bytes())], &options);
    }
    let files = fs::read_dir(site.channel().join("targets/rules")).unwrap().count();
    assert_eq!(files, 3);
    let names = |ending: &str| {
        let all = fs::read_dir(site.channel()).unwrap().flatten();
        all.filter(|e| e.file_name().to_string_lossy().ends_with(ending)).count()
    };
    assert_eq!((names(".targets.json"), names(".snapshot.json")), (3, 3));
    Repository::open(&site.channel()).unwrap().verify(site.now_s).unwrap();
    site.pull().unwrap();
}

#[test]
fn a_root_needs_the_keys_of_all_who_must_sign_it() {
    let mut site = Site::new();
    site.publish(&[("rules/a.cf", b"a")]);
    site.pull().unwrap();
    // Two people, each with one key.
    let (ann, bob) = (KeyFolder::new(&site.path("ann")), KeyFolder::new(&site.path("bob")));
    for (folder, key) in [(&ann, "root-1.pem"), (&bob, "root-2.pem")] {
        fs::create_dir(folder.folder()).unwrap();
        fs::rename(site.keys().folder().join(key), folder.folder().join(key)).unwrap();
    }
    let lifetimes = Lifetimes::default();
    site.now_s += 300 * DAY_S;
    let mut channel = Repository::open(&site.channel()).unwrap();
    let staged = channel.change_keys(&[Change::Renew], &ann, lifetimes, site.now_s).unwrap();
    assert!(matches!(staged, Staged::Waits(_)), "{staged:?}");
    assert_eq!(channel.root().version, 1);
    assert_eq!(channel.add_signatures(&bob).unwrap(), Staged::InForce(2));
    channel.refresh(&site.keys(), lifetimes, site.now_s).unwrap();
    channel.verify(site.now_s).unwrap();
    drop(channel);
    site.pull().unwrap();
    // Bob leaves, Carol comes; three versions of the root later the node still follows.
    let carol = KeyFolder::new(&site.path("carol"));
    let new = carol.create(RoleName::Root).unwrap().public();
    let mut channel = Repository::open(&site.channel()).unwrap();
    let bobs = bob.all(RoleName::Root).unwrap()[0].public().id();
    let changes = [Change::Remove(RoleName::Root, bobs), Change::Add(RoleName::Root, new)];
    channel.change_keys(&changes, &ann, lifetimes, site.now_s).unwrap();
    assert!(
        matches!(channel.add_signatures(&carol).unwrap(), Staged::Waits(_)),
        "the old ones, too"
    );
    assert_eq!(channel.add_signatures(&bob).unwrap(), Staged::InForce(3));
    channel.change_keys(&[Change::Renew], &ann, lifetimes, site.now_s).unwrap();
    assert_eq!(channel.add_signatures(&carol).unwrap(), Staged::InForce(4));
    drop(channel);
    site.publish(&[("rules/a.cf", b"b")]);
    site.pull().unwrap();
    assert_eq!(site.in_force()["rules/a.cf"], b"b");
}

#[test]
fn changes_of_keys_that_would_lock_everybody_out_are_refused() {
    let site = Site::new();
    let mut channel = Repository::open(&site.channel()).unwrap();
    let root = channel.root().role(RoleName::Root).unwrap().keyids[0].clone();
    for change in [
        Change::Threshold(RoleName::Root, 0),
        Change::Threshold(RoleName::Root, 3),
        Change::Remove(RoleName::Root, root),
        Change::Remove(RoleName::Targets, "0".repeat(64)),
        Change::Remove(RoleName::Root, String::new()),
    ] {
        let changed = channel.change_keys(
            std::slice::from_ref(&change),
            &site.keys(),
            Lifetimes::default(),
            0,
        );
        assert!(matches!(changed, Err(Error::Refused(_))), "{change:?}");
    }
    assert_eq!(channel.root().version, 1);
}

#[test]
fn a_publisher_without_the_roots_keys_publishes() {
    let site = Site::new();
    for name in ["root-1.pem", "root-2.pem"] {
        fs::remove_file(site.keys().folder().join(name)).unwrap();
    }
    site.publish(&[("rules/a.cf", b"a")]);
    site.pull().unwrap();
    fs::remove_file(site.keys().folder().join("snapshot-1.pem")).unwrap();
    let mut channel = Repository::open(&site.channel()).unwrap();
    let published =
        channel.publish(&site.path("content"), &site.keys(), &Site::options(), site.now_s);
    assert!(published.unwrap_err().to_string().contains("snapshot-1.pem"));
    assert_eq!(site.pull().unwrap().0, Outcome::Unchanged);
}

#[test]
fn a_mirror_of_a_mirror_serves_the_same() {
    let site = Site::new();
    let copy = site.path("copy");
    let first = |root: Option<&[u8]>| {
        let mut source = FolderMirror::new(&site.channel());
        mirror::copy(&mut source, &copy, root, site.now_s)
    };
    assert!(first(None).is_err(), "without a root");
    for version in 2..7 {
        let text = format!("rule {version}\n").repeat(50);
        site.publish(&[("rules/a.cf", text.as_bytes()), ("urls/spam/x", b"x")]);
        let root = site.root();
        let (copied, _) = first(Some(root.as_slice()).filter(|_| version == 2)).unwrap();
        assert_eq!(copied, version);
        assert_eq!(
            site.pull_from(&mut FolderMirror::new(&copy)).unwrap().0,
            Outcome::Ready(version)
        );
    }
    assert_eq!(fs::read_dir(copy.join("targets/rules")).unwrap().count(), 2);
    let (_, costs) = first(None).unwrap();
    assert_eq!(costs.whole, 0);
    // A damaged source leaves the copy as it is.
    let old = site.freeze("old");
    site.publish(&[("rules/a.cf", b"new")]);
    first(None).unwrap();
    assert!(mirror::copy(&mut FolderMirror::new(&old), &copy, None, site.now_s).is_err());
    assert_eq!(site.pull_from(&mut FolderMirror::new(&copy)).unwrap().0, Outcome::Ready(7));
}

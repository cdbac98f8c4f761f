//! The fuzz target's inputs without a fuzzer: real metadata and deltas, every cut and many changed
//! bytes.

use std::fs;

use gauntlet_channel::delta;

use crate::channel_bytes::feed;
use crate::site::Site;

#[test]
fn no_bytes_make_the_readers_panic() {
    let site = Site::new();
    site.publish(&[("rules/a.cf", b"one"), ("urls/spam/x", &b"list ".repeat(40))]);
    site.pull().unwrap();
    let channel = site.channel();
    let read = |name: &str| fs::read(channel.join(name)).unwrap();
    let old = b"a text that both have in common ".repeat(9);
    let made = delta::make(&old, &[old.as_slice(), b"and more"].concat()).unwrap();
    let seeds: Vec<(u8, Vec<u8>)> = vec![
        (0, read("1.root.json")),
        (1, read("timestamp.json")),
        (2, read("2.snapshot.json")),
        (3, read("2.targets.json")),
        (4, delta::make(&[], &old).unwrap()),
        (5, [old[..made.len()].to_vec(), made].concat()),
        (6, fs::read(site.path("node/generations/2/generation.json")).unwrap()),
        (7, b"2026-11-27T04:30:00Z".to_vec()),
    ];
    for (choice, seed) in seeds {
        let seed = [vec![choice], seed].concat();
        feed(&seed);
        for cut in 0..seed.len() {
            feed(&seed[..cut]);
        }
        for at in 0..seed.len() {
            for change in [1, 0x20, 0x80, 0xff] {
                let mut broken = seed.clone();
                broken[at] ^= change;
                feed(&broken);
            }
        }
    }
}

#[test]
fn deep_and_large_metadata_are_refused() {
    feed(&[&[0u8][..], &b"[".repeat(100_000)].concat());
    let deep =
        format!("{{\"signed\":{}1{},\"signatures\":[]}}", "[".repeat(9_000), "]".repeat(9_000));
    feed(&[&[0u8], deep.as_bytes()].concat());
    feed(&[&[1u8][..], &vec![b' '; 20 << 10]].concat());
    let many = format!(
        "{{\"signed\":{{}},\"signatures\":[{}]}}",
        vec!["{\"keyid\":\"\",\"sig\":\"\"}"; 99].join(",")
    );
    feed(&[&[2u8], many.as_bytes()].concat());
}

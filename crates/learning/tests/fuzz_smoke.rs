//! The fuzz target's inputs without a fuzzer: real lines and files, every cut and many changed
//! bytes.

use gauntlet_learning::probes::{Sighting, add_good_domains, domain_id};

use crate::probes_bytes::feed;

#[test]
fn no_bytes_make_the_readers_panic() {
    let sighting = Sighting {
        at_s: 1_795_766_400,
        network: "n 192.0.2.0/24".to_owned(),
        sender: "sender.example".to_owned(),
        class: "spam".to_owned(),
        urls: ["http://evil.com/a?b#c", "https://[2001:db8::1]:81/%zz", "http://a.b.co.uk"]
            .map(str::to_owned)
            .to_vec(),
        rules: vec!["RULE".to_owned()],
    };
    let line = serde_json::to_vec(&sighting).unwrap();
    let data = tempfile::tempdir().unwrap();
    let ids = ["a.example", "b.example", "c.example"].map(domain_id);
    add_good_domains(data.path(), &ids, 20_000).unwrap();
    let domains = std::fs::read(data.path().join("probes/good-domains")).unwrap();
    for (choice, seed) in [(0u8, [&line[..], b"\n", &line].concat()), (1, domains)] {
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

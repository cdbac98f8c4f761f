//! Whether the table agrees with what Suricata has.

use super::*;
use crate::rule::buffers;

#[test]
fn lists_exist() {
    for check in CHECKS {
        assert!(buffers::buffer(check.list).is_some(), "{}", check.name);
        assert!(crate::rule::protocol::find(check.protocol).is_some(), "{}", check.protocol);
    }
}

#[test]
fn numbers_are_looked_at_when_suricata_does() {
    for check in CHECKS {
        let number = gauntlet_protocols::Number::of_keyword(check.name);
        let (Some(number), Some(info)) = (number, buffers::buffer(check.list)) else {
            continue;
        };
        for engine in number.spec().engines.iter().filter(|e| e.protocol.name() != "doh2") {
            let found = info.engines.iter().any(|other| {
                (other.protocol, other.progress) == (engine.protocol.name(), engine.progress)
                    && gauntlet_packet::Direction::from(other.direction) == engine.direction
            });
            assert!(found, "{}: {engine:?}", check.name);
        }
    }
}

/// Of NFS 4 there are no calls: a rule that asks for them would count as usable and never match.
#[test]
fn versions_of_nfs_that_are_never_told_are_refused() {
    let check = CHECKS.iter().find(|check| check.name == "nfs.version").unwrap();
    for text in ["2", "3", ">2", "<4", "!3", "2<>4", "!4", ">=3"] {
        assert!(check.value(text).is_ok(), "{text}");
    }
    for text in ["4", ">3", ">=4", "1", "<2", "3<>5"] {
        let refused = format!("{:?}", check.value(text).unwrap_err());
        assert!(refused.contains("of NFS 4 only the frames"), "{text}: {refused}");
    }
}

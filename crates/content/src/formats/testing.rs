//! What the tests of the decoders share.

use crate::host::{NoHost, Root};
use crate::limits::Limits;
use crate::object::Tree;

/// The tree of one file of this name.
pub(crate) fn tree(bytes: &[u8], name: &str) -> Tree {
    tree_with(bytes, name, &[])
}

/// The same, trying these passwords.
pub(crate) fn tree_with(bytes: &[u8], name: &str, words: &[&str]) -> Tree {
    let word =
        |word: &&str| crate::Password { word: (*word).to_owned(), source: "test".to_owned() };
    let words: Vec<crate::Password> = words.iter().map(word).collect();
    let root = Root { name, declared_type: "", bytes };
    crate::unpack(&[root], &Limits::default(), &words, &mut NoHost)
}

/// The paths of all objects.
pub(crate) fn paths(tree: &Tree) -> Vec<&str> {
    tree.objects.iter().map(|object| object.path.as_str()).collect()
}

/// Every beginning of a file, and the file with every byte changed: nothing fails.
pub(crate) fn nasty(whole: &[u8], name: &str) {
    let fails = |tree: &Tree| {
        let all = tree.objects.iter().flat_map(|object| &object.defects);
        all.into_iter().any(|defect| defect.kind == crate::DefectKind::DecoderFailed)
    };
    let step = (whole.len() / 100).max(1);
    for end in (0..whole.len()).step_by(step) {
        assert!(!fails(&tree(&whole[..end], name)), "cut at {end}");
    }
    for at in (0..whole.len()).step_by(step) {
        for change in [0xff, 0x80, 0x01] {
            let mut changed = whole.to_vec();
            changed[at] ^= change;
            assert!(!fails(&tree(&changed, name)), "byte {at} changed by {change:#x}");
        }
    }
}

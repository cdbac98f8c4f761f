//! What a worker answers is checked against the limits that it was given: it may be an intruder's
//! by now, and the node keeps, shows and judges what it says.

use std::io;

use crate::digest::{MD5_DIGITS, SHA256_DIGITS};
use crate::disarm::Disarmed;
use crate::host::Root;
use crate::limits::Limits;
use crate::object::{DefectKind, Object, PropertyKind, Tree};
use crate::test_file;
use crate::unpack::{DEFECTS_MAX, DETAIL_BYTES_MAX, PATH_BYTES_MAX};

/// Bytes that one byte of a name may become when it is shown (`\u{7f}`).
const SHOWN_TIMES_MAX: usize = 10;
/// Kinds of defects: the first of each is kept beside [`DEFECTS_MAX`].
const KINDS_MAX: usize = 32;
/// Bytes of the reason why a file is not disarmed, which names the path of an object.
const REASON_BYTES_MAX: usize = 1_000;
/// Words for what was taken out of a file that was disarmed.
const REMOVED_MAX: usize = 64;

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the worker's answer breaks a rule: {what}"))
}

fn ensure(holds: bool, what: &str) -> io::Result<()> {
    if holds { Ok(()) } else { Err(invalid(what)) }
}

/// Whether a tree can be that of these files within these limits.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] with the rule that it breaks.
pub(super) fn check(tree: &Tree, roots: &[Root<'_>], limits: &Limits) -> io::Result<()> {
    ensure(tree.objects.len() <= limits.objects_max as usize, "number of objects")?;
    ensure(tree.engines.is_empty() && !tree.all_readings, "what only the node knows")?;
    let (mut text, mut urls, mut next_root) = (0usize, 0usize, 0u32);
    let mut depths: Vec<u32> = Vec::with_capacity(tree.objects.len());
    for (index, object) in tree.objects.iter().enumerate() {
        check_object(object, roots, limits)?;
        let depth = match object.parent {
            None => {
                ensure(object.root == next_root, "order of the files")?;
                next_root += 1;
                0
            }
            Some(parent) => {
                let parent = parent as usize;
                ensure(parent < index, "a container behind its content")?;
                ensure(tree.objects[parent].root == object.root, "a container of another file")?;
                depths[parent] + 1
            }
        };
        ensure(depth <= limits.depth_max, "depth")?;
        depths.push(depth);
        text = text.saturating_add(object.text.len());
        urls = urls.saturating_add(object.urls.len());
    }
    ensure(text <= limits.all_text_bytes_max, "bytes of text")?;
    ensure(urls <= limits.urls_max, "number of URLs")?;
    let is_whole = next_root as usize == roots.len();
    let says_so = || tree.unread().any(|(_, defect)| defect.kind == DefectKind::TooManyObjects);
    ensure(is_whole || limits.objects_max == 0 || says_so(), "files that are left out")
}

/// Whether an object can be one of these files or lie in one, within these limits.
///
/// # Errors
/// As [`check`].
pub(super) fn check_object(object: &Object, roots: &[Root<'_>], limits: &Limits) -> io::Result<()> {
    let root =
        roots.get(object.root as usize).ok_or_else(|| invalid("a file that was not given"))?;
    let given = root.bytes.len() as u64;
    ensure(object.size <= size_max(limits, given), "size of an object")?;
    ensure(object.parent.is_some() || object.size == given, "size of a file")?;
    let name_max = limits.name_bytes_max;
    ensure(object.name.len() <= name_max, "length of a name")?;
    ensure(object.declared_type.len() <= name_max, "length of a type")?;
    ensure(is_shown(&object.path), "characters of a path")?;
    ensure(object.path.len() <= PATH_BYTES_MAX + SHOWN_TIMES_MAX * name_max, "length of a path")?;
    ensure(is_digest(&object.sha256, SHA256_DIGITS), "SHA-256")?;
    ensure(is_digest(&object.md5, MD5_DIGITS), "MD5")?;
    ensure(object.text.len() <= limits.text_bytes_max, "bytes of text")?;
    ensure(object.urls.len() <= limits.urls_max, "number of URLs")?;
    ensure(object.urls.iter().all(|u| u.url.len() <= 4 * name_max), "length of a URL")?;
    ensure(object.properties.len() <= limits.properties_max, "number of properties")?;
    for property in &object.properties {
        ensure(is_detail(&property.detail), "detail of a property")?;
        let is_the_nodes = match property.kind {
            PropertyKind::OtherReading | PropertyKind::EngineSuspicion => true,
            PropertyKind::EngineFinding => property.detail != test_file::FINDING,
            _ => false,
        };
        ensure(!is_the_nodes, "what only the node knows")?;
    }
    ensure(object.defects.len() <= DEFECTS_MAX + KINDS_MAX, "number of defects")?;
    ensure(object.defects.iter().all(|d| is_detail(&d.detail)), "detail of a defect")
}

/// Bytes that an object may have in a file of `given` bytes. What lies there as it is has no more
/// than the file; of what is put together from several streams the last may go beyond the limit of
/// an object by as much again.
pub(super) fn size_max(limits: &Limits, given: u64) -> u64 {
    limits.object_bytes_max.saturating_mul(2).saturating_add(given)
}

/// The outcome of a disarmed file, in a bounded text.
///
/// # Errors
/// As [`check`].
pub(super) fn checked(disarmed: Disarmed) -> io::Result<Disarmed> {
    match disarmed {
        Disarmed::Clean => Ok(Disarmed::Clean),
        Disarmed::Refused(why) => {
            let why = crate::text::bounded(&crate::text::printable(&why), REASON_BYTES_MAX);
            Ok(Disarmed::Refused(why))
        }
        Disarmed::Changed(harmless) => {
            ensure(harmless.removed.len() <= REMOVED_MAX, "number of what was removed")?;
            ensure(harmless.removed.iter().all(|what| is_detail(what)), "what was removed")?;
            Ok(Disarmed::Changed(harmless))
        }
    }
}

/// No character that a log or a page must not get.
fn is_shown(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn is_detail(text: &str) -> bool {
    text.len() <= DETAIL_BYTES_MAX && is_shown(text)
}

fn is_digest(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{FoundUrl, ObjectDefect, Property, UrlSource};

    const ZIP: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

    fn roots() -> [Root<'static>; 2] {
        let root = |name| Root { name, declared_type: "application/zip", bytes: ZIP };
        [root("a.zip"), root("b.zip")]
    }

    /// What a worker would answer, with an object inside the first file.
    fn valid_tree() -> Tree {
        let mut tree = crate::process::client::failed(&roots(), DefectKind::OutOfTime, "slow");
        let mut inner = tree.objects[0].clone();
        (inner.parent, inner.path, inner.name) = (Some(0), "a.zip/x".into(), "x".into());
        tree.objects.insert(1, inner);
        tree
    }

    #[test]
    fn what_unpacking_makes_is_taken() {
        check(&valid_tree(), &roots(), &Limits::default()).unwrap();
        let made = crate::unpack(&roots(), &Limits::default(), &[], &mut crate::NoHost);
        check(&made, &roots(), &Limits::default()).unwrap();
        let few = Limits { objects_max: 1, ..Limits::default() };
        let made = crate::unpack(&roots(), &few, &[], &mut crate::NoHost);
        assert_eq!(made.objects.len(), 1);
        assert!(made.unread().any(|(_, d)| d.kind == DefectKind::TooManyObjects), "{made:?}");
        check(&made, &roots(), &few).unwrap();
    }

    #[test]
    fn every_broken_rule_is_refused() {
        type Forgery = (&'static str, fn(&mut Tree));
        let forgeries: [Forgery; 24] = [
            ("number of objects", |t| {
                let one = t.objects[1].clone();
                t.objects.extend(std::iter::repeat_n(one, 2_000));
            }),
            ("what only the node knows", |t| t.all_readings = true),
            ("what only the node knows", |t| t.engines.push(Default::default())),
            ("a file that was not given", |t| t.objects[2].root = 2),
            ("order of the files", |t| t.objects[2].root = 0),
            ("files that are left out", |t| t.objects.truncate(2)),
            ("a container behind its content", |t| t.objects[1].parent = Some(1)),
            ("a container behind its content", |t| t.objects[1].parent = Some(u32::MAX)),
            ("a container of another file", |t| {
                t.objects[1].root = 1;
            }),
            ("size of an object", |t| t.objects[1].size = 1 << 40),
            ("size of a file", |t| t.objects[0].size = 3),
            ("length of a name", |t| t.objects[1].name = "x".repeat(9_999)),
            ("length of a type", |t| t.objects[1].declared_type = "x".repeat(9_999)),
            ("characters of a path", |t| t.objects[1].path.push('\n')),
            ("length of a path", |t| t.objects[1].path = "x".repeat(99_999)),
            ("SHA-256", |t| t.objects[1].sha256 = "../../etc/passwd".into()),
            ("MD5", |t| t.objects[1].md5 = "<script>".into()),
            ("bytes of text", |t| t.objects[1].text = "x".repeat(1 << 20)),
            ("number of URLs", |t| {
                let one = FoundUrl { url: "http://x".into(), source: UrlSource::Link };
                t.objects[1].urls = vec![one; 1_001];
            }),
            ("length of a URL", |t| {
                let url = "x".repeat(9_999);
                t.objects[1].urls = vec![FoundUrl { url, source: UrlSource::Link }];
            }),
            ("detail of a property", |t| {
                let detail = "x".repeat(201);
                t.objects[1].properties = vec![Property { kind: PropertyKind::Form, detail }];
            }),
            ("what only the node knows", |t| {
                let detail = "clamav: a.b.c".to_owned();
                let kind = PropertyKind::EngineFinding;
                t.objects[1].properties = vec![Property { kind, detail }];
            }),
            ("number of defects", |t| {
                let one = ObjectDefect { kind: DefectKind::Bomb, detail: String::new() };
                t.objects[1].defects = vec![one; 100];
            }),
            ("depth", |t| {
                for index in 1..80 {
                    let inner = Object { parent: Some(index), ..t.objects[1].clone() };
                    t.objects.insert(index as usize + 1, inner);
                }
            }),
        ];
        for (what, forge) in forgeries {
            let mut tree = valid_tree();
            forge(&mut tree);
            let error = check(&tree, &roots(), &Limits::default()).unwrap_err().to_string();
            assert!(error.ends_with(what), "{what}: {error}");
        }
        let Disarmed::Refused(why) = checked(Disarmed::Refused("\n".repeat(9_999))).unwrap() else {
            panic!("refused is refused");
        };
        assert!(why.len() <= REASON_BYTES_MAX && is_shown(&why));
    }
}

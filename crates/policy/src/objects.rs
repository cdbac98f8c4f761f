//! The condition `object`: one file of the message, an attachment or one found inside another, that
//! fits every field that is given ([`gauntlet_mail::file_kind::object`]).

use gauntlet_mail::file_kind::FileKind;
use gauntlet_mail::file_kind::object::{DefectKind, Object, PropertyKind, Tree};
use serde::Deserialize;

use crate::bytes::Bytes;
use crate::pattern::{OneOrMany, Pattern};

/// Hexadecimal digits of a SHA-256.
const SHA256_DIGITS: usize = 64;
/// Properties and defects of an object that an explanation names.
const NAMED_MAX: usize = 4;

/// A file that fits all fields that are given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectCondition {
    /// Its own name, with or without the folders that its container gives it.
    pub name: Option<OneOrMany<Pattern>>,
    /// Names from the outermost file to it, joined by `/`.
    pub path: Option<OneOrMany<Pattern>>,
    /// Media type: what its bytes are, or what its sender or container says.
    #[serde(rename = "type")]
    pub kind: Option<OneOrMany<Pattern>>,
    /// The object has so many bytes, or more.
    pub size_min: Option<Bytes>,
    /// The object has fewer bytes.
    pub size_below: Option<Bytes>,
    /// SHA-256 of its bytes.
    pub sha256: Option<OneOrMany<Sha256>>,
    /// It has one of these properties.
    pub property: Option<OneOrMany<PropertyKind>>,
    /// What an engine says of it: `ENGINE`, or `ENGINE: FINDING`.
    pub engine: Option<OneOrMany<Pattern>>,
    /// It needs a password, found or not.
    pub encrypted: Option<bool>,
    /// It was not read, wholly or in part, for one of these reasons.
    pub defect: Option<OneOrMany<DefectKind>>,
    /// It lies in another file.
    pub inside: Option<bool>,
}

/// A SHA-256 in hexadecimal digits, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Sha256(String);

impl TryFrom<String> for Sha256 {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let fits = text.len() == SHA256_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
        match fits {
            true => Ok(Sha256(text.to_ascii_lowercase())),
            false => {
                Err(format!("{text:?} is no SHA-256; write its {SHA256_DIGITS} hexadecimal digits"))
            }
        }
    }
}

impl ObjectCondition {
    /// Whether one object fits every field that is given.
    pub fn fits(&self, object: &Object) -> bool {
        let asked = |patterns: &Option<OneOrMany<Pattern>>, values: &[&str]| {
            let fits = |p: &OneOrMany<Pattern>| values.iter().any(|v| p.matching(v).is_some());
            patterns.as_ref().is_none_or(fits)
        };
        let last = object.name.rsplit(['/', '\\']).next().unwrap_or_default();
        asked(&self.name, &[&object.name, last])
            && asked(&self.path, &[&object.path])
            && self.kind.as_ref().is_none_or(|p| types(object).any(|t| p.matching(t).is_some()))
            && self.size_min.is_none_or(|min| object.size >= min.0)
            && self.size_below.is_none_or(|below| object.size < below.0)
            && self.inside.is_none_or(|inside| object.parent.is_some() == inside)
            && self.encrypted.is_none_or(|encrypted| is_encrypted(object) == encrypted)
            && self.engine.as_ref().is_none_or(|p| is_found(object, p))
            && self
                .sha256
                .as_ref()
                .is_none_or(|l| l.as_slice().iter().any(|s| s.0 == object.sha256))
            && self.property.as_ref().is_none_or(|l| l.as_slice().iter().any(|k| object.has(*k)))
            && self.defect.as_ref().is_none_or(|list| {
                object.defects.iter().any(|defect| list.as_slice().contains(&defect.kind))
            })
    }

    /// The first object that fits.
    pub fn first<'t>(&self, tree: &'t Tree) -> Option<&'t Object> {
        tree.objects.iter().find(|object| self.fits(object))
    }

    /// What can never hold, in words.
    pub(crate) fn problem(&self) -> Option<String> {
        if *self == ObjectCondition::default() {
            return Some("object = {} asks for nothing; name a type, a property ...".to_owned());
        }
        let lists = [
            self.sha256.as_ref().map(|l| l.as_slice().len()),
            self.property.as_ref().map(|l| l.as_slice().len()),
            self.defect.as_ref().map(|l| l.as_slice().len()),
        ];
        if lists.contains(&Some(0)) {
            return Some("object: an empty list fits nothing; leave the field out".to_owned());
        }
        match (self.size_min, self.size_below) {
            (Some(min), Some(below)) if min >= below => {
                Some(format!("object: size_min {} and size_below {} leave no size", min.0, below.0))
            }
            _ => None,
        }
    }
}

/// The media types of an object: of its bytes, under the names that are in use, and as declared.
fn types(object: &Object) -> impl Iterator<Item = &str> {
    let also: &[&str] = match object.kind {
        // Neither is registered; both are what most programs write.
        FileKind::WindowsProgram => &["application/x-dosexec", "application/x-msdownload"],
        _ => &[],
    };
    [object.kind.media_type()]
        .into_iter()
        .chain(also.iter().copied())
        .chain(Some(object.declared_type.as_str()).filter(|declared| !declared.is_empty()))
}

fn is_encrypted(object: &Object) -> bool {
    object.has(PropertyKind::Encrypted)
        || object.has(PropertyKind::PasswordFound)
        || object.defects.iter().any(|defect| defect.kind == DefectKind::Encrypted)
}

fn is_found(object: &Object, patterns: &OneOrMany<Pattern>) -> bool {
    let findings = object.properties.iter().filter(|p| p.kind == PropertyKind::EngineFinding);
    findings.into_iter().any(|finding| {
        let engine = finding.detail.split(':').next().unwrap_or_default();
        patterns.matching(&finding.detail).or_else(|| patterns.matching(engine)).is_some()
    })
}

/// Path, type, and what was found in an object and what was not read, in a few words.
pub fn described(object: &Object) -> String {
    let with = |kind: String, detail: &str| match detail {
        "" => kind,
        detail => format!("{kind} {detail}"),
    };
    let found = object.properties.iter().map(|p| with(word(&p.kind), &p.detail));
    let unread =
        object.defects.iter().map(|d| with(format!("not read: {}", word(&d.kind)), &d.detail));
    let mut all = vec![object.kind.media_type().to_owned()];
    all.extend(found.chain(unread).take(NAMED_MAX));
    format!("{} ({})", object.path, all.join(", "))
}

/// The name of a kind as policies write it: `vba_macros` of `VbaMacros`.
fn word(kind: &impl std::fmt::Debug) -> String {
    let mut out = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::file_kind::object::{ObjectDefect, Property};

    use super::*;

    fn object(path: &str, kind: FileKind) -> Object {
        Object {
            parent: path.contains('/').then_some(0),
            root: 0,
            path: path.to_owned(),
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            declared_type: String::new(),
            kind,
            size: 100,
            sha256: "ab".repeat(32),
            md5: String::new(),
            properties: Vec::new(),
            defects: Vec::new(),
            text: String::new(),
            urls: Vec::new(),
        }
    }

    fn fits(condition: &str, object: &Object) -> bool {
        toml::from_str::<ObjectCondition>(condition).unwrap().fits(object)
    }

    #[test]
    fn every_field_must_hold_of_the_same_object() {
        let mut run = object("a.zip/dir/run.exe", FileKind::WindowsProgram);
        run.properties.push(Property {
            kind: PropertyKind::EngineFinding,
            detail: "clamav: Eicar-Test-Signature".to_owned(),
        });
        run.defects.push(ObjectDefect { kind: DefectKind::Bomb, detail: String::new() });
        for condition in [
            "type = 'application/x-dosexec'\npath = 'a.zip/*'",
            "name = 'RUN.exe'\ninside = true\nencrypted = false",
            "engine = '*'",
            "engine = 'clamav'",
            "engine = ['yara', 'clamav: eicar*']",
            "property = 'engine_finding'\ndefect = ['too_deep', 'bomb']",
            "size_min = 100\nsize_below = 101",
            &format!("sha256 = ['{}']", "AB".repeat(32)),
        ] {
            assert!(fits(condition, &run), "{condition}");
        }
        for condition in [
            "type = 'application/x-dosexec'\npath = '*.rar/*'",
            "name = 'run'",
            "inside = false",
            "engine = 'yara'",
            "encrypted = true",
            "property = ['vba_macros']",
            "defect = 'encrypted'",
            "size_min = 101",
        ] {
            assert!(!fits(condition, &run), "{condition}");
        }
        assert!(!fits("engine = '*'", &object("a.txt", FileKind::Text)));
        assert_eq!(
            described(&run),
            "a.zip/dir/run.exe (application/vnd.microsoft.portable-executable, \
             engine_finding clamav: Eicar-Test-Signature, not read: bomb)"
        );
    }

    #[test]
    fn what_is_encrypted_by_property_or_defect() {
        let mut sealed = object("a.zip", FileKind::Zip);
        assert!(!fits("encrypted = true", &sealed));
        sealed.defects.push(ObjectDefect { kind: DefectKind::Encrypted, detail: String::new() });
        assert!(fits("encrypted = true\ndefect = 'encrypted'", &sealed));
        let mut opened = object("a.zip", FileKind::Zip);
        let (kind, detail) = (PropertyKind::PasswordFound, "list".to_owned());
        opened.properties.push(Property { kind, detail });
        assert!(fits("encrypted = true", &opened));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| toml::from_str::<ObjectCondition>(text).unwrap_err().to_string();
        let unknown = error("property = 'vba_macro'");
        assert!(unknown.contains("`vba_macro`") && unknown.contains("`vba_macros`"), "{unknown}");
        assert!(error("defect = ['bom']").contains("`bomb`"));
        assert!(error("sha256 = 'abc'").contains("64 hexadecimal digits"));
        let empty: ObjectCondition = toml::from_str("property = []").unwrap();
        assert!(empty.problem().unwrap().contains("empty list"));
        assert!(error("nme = 'x'").contains("unknown field"));
        assert!(ObjectCondition::default().problem().is_some());
        let sizes: ObjectCondition = toml::from_str("size_min = 5\nsize_below = 5").unwrap();
        assert!(sizes.problem().unwrap().contains("leave no size"));
    }
}

//! Unicode properties of bytes (`\p{...}`): a byte is the character U+0000 to U+00FF.

use regex_syntax::hir::{Class, HirKind};

use super::syntax::ByteSet;

/// Perl's names of properties that Unicode names otherwise, in lower case and without `_`, ` ` and
/// `-`.
const PERL_NAMES: [(&str, &str); 26] = [
    ("all", "Any"),
    ("alnum", "[\\p{Alphabetic}\\p{Nd}]"),
    ("alpha", "\\p{Alphabetic}"),
    ("blank", "[\\p{Zs}\\t]"),
    ("cntrl", "\\p{Cc}"),
    ("digit", "\\p{Nd}"),
    ("graph", "[^\\p{White_Space}\\p{Cc}\\p{Cs}\\p{Cn}]"),
    ("lower", "\\p{Lowercase}"),
    ("posixalnum", "[0-9A-Za-z]"),
    ("posixalpha", "[A-Za-z]"),
    ("posixblank", "[ \\t]"),
    ("posixcntrl", "[\\x00-\\x1f\\x7f]"),
    ("posixdigit", "[0-9]"),
    ("posixgraph", "[!-~]"),
    ("posixlower", "[a-z]"),
    ("posixprint", "[ -~]"),
    ("posixpunct", "[!-/:-@\\[-`{-~]"),
    ("posixspace", "[\\t-\\r ]"),
    ("posixupper", "[A-Z]"),
    ("posixword", "[0-9A-Za-z_]"),
    ("posixxdigit", "[0-9A-Fa-f]"),
    ("print", "[^\\p{Cc}\\p{Cs}\\p{Cn}]"),
    ("space", "\\p{White_Space}"),
    ("spaceperl", "\\p{White_Space}"),
    ("upper", "\\p{Uppercase}"),
    ("word", "\\w"),
];

/// The bytes that have a property; none if no property has this name.
pub(super) fn of_name(name: &str) -> Option<ByteSet> {
    let plain: String =
        name.chars().filter(|c| !matches!(c, '_' | ' ' | '-')).collect::<String>().to_lowercase();
    let plain = plain.strip_prefix("is").unwrap_or(&plain);
    let perl = plain.strip_prefix('x').filter(|rest| rest.starts_with("posix"));
    let perl = perl.map_or(plain, |rest| &rest["posix".len()..]);
    let known = PERL_NAMES.iter().find(|(perl_name, _)| *perl_name == perl);
    let pattern = match known {
        Some((_, "Any")) => return Some(ByteSet::ALL),
        Some((_, pattern)) => (*pattern).to_owned(),
        None if plain.chars().all(|c| c.is_alphanumeric() || matches!(c, '=' | ':')) => {
            format!("\\p{{{}}}", plain.replace(':', "="))
        }
        None => return None,
    };
    let hir = regex_syntax::parse(&pattern).ok()?;
    let mut set = ByteSet::default();
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            for range in class.iter() {
                let end = u32::from(range.end()).min(0xff);
                (u32::from(range.start())..=end)
                    .filter_map(|c| u8::try_from(c).ok())
                    .for_each(|b| set.insert(b));
            }
        }
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0).ok()?.chars().next() {
            Some(c) => u8::try_from(u32::from(c)).ok().into_iter().for_each(|b| set.insert(b)),
            None => return None,
        },
        _ => return None,
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unicode_and_of_perl() {
        let has = |name: &str, byte: u8| of_name(name).is_some_and(|set| set.contains(byte));
        assert!(has("L", b'a') && has("L", 0xe9) && !has("L", b'1'));
        assert!(has("Lu", 0xc9) && !has("Lu", 0xe9));
        assert!(has("IsSpace", 0xa0) && has("IsSpace", 0x85) && !has("PosixSpace", 0xa0));
        assert!(has("Latin", b'a') && has("Script=Latin", 0xe9) && !has("Cyrillic", b'a'));
        assert!(has("XPosixAlpha", 0xe9) && !has("PosixAlpha", 0xe9));
        assert!(has("Is_Upper", b'A') && has("Any", 0));
        assert!(of_name("NoSuchThing").is_none());
    }
}

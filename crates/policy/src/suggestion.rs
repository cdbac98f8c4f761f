//! "Did you mean": the known name that is nearest to a misspelt one. And what serde says of a
//! value, in words of people who write settings.

/// What serde calls types, and what they are called in a file.
const TYPES: [(&str, &str); 17] = [
    ("usize", "a whole number, 0 or more"),
    ("u64", "a whole number, 0 or more"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u16", "a whole number from 0 to 65535"),
    ("u8", "a whole number from 0 to 255"),
    ("isize", "a whole number"),
    ("i64", "a whole number"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
    ("i16", "a whole number from -32768 to 32767"),
    ("i8", "a whole number from -128 to 127"),
    ("f64", "a number"),
    ("f32", "a number"),
    ("a boolean", "true or false"),
    ("a string", "a text in quotes"),
    ("path string", "a path in quotes"),
    ("a sequence", "a list in [ ]"),
    ("a map", "a table"),
];

/// Adds "did you mean" to serde's "unknown field `x`, expected one of `a`, `b`", and says types as
/// people do.
pub fn with_nearest(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let given = names.next().filter(|_| message.starts_with("unknown"));
    let nearest = given.and_then(|given| nearest(given, names.map(str::to_owned)));
    let short = message.lines().next().unwrap_or(message);
    let (head, expected) = short.split_once(", expected ").unwrap_or((short, ""));
    let is_value = head.starts_with("unknown variant");
    let head = head.replacen("unknown variant", "unknown value", 1);
    match nearest {
        // The values of a setting are few. With a key to offer, the list of all others is noise.
        Some(name) if is_value => format!("{head}, expected {expected}; did you mean `{name}`?"),
        Some(name) => format!("{head}; did you mean `{name}`?"),
        None if expected.is_empty() => head,
        None => {
            let plain = TYPES.iter().find(|(name, _)| *name == expected);
            let expected = plain.map_or(expected, |(_, plain)| plain);
            // Numbers that no setting holds are named with their type.
            let head = [" as i128", " as u128"].iter().fold(head, |h, kind| h.replace(kind, ""));
            format!("{head}, expected {expected}")
        }
    }
}

/// The one of `names` that is most like `given`, if one is like it at all.
pub fn nearest(given: &str, names: impl Iterator<Item = String>) -> Option<String> {
    /// Letters that may differ, and not more than half of them; else it is another word.
    const DISTANCE_MAX: usize = 3;
    let most = DISTANCE_MAX.min(given.chars().count() / 2);
    let distances = names.map(|name| (strsim::osa_distance(given, &name), name));
    distances.min().filter(|(distance, _)| *distance <= most).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_like_it_is_offered_and_values_are_listed() {
        for (message, said) in [
            (
                "unknown variant `foo`, expected one of `dns`, `off`",
                "unknown value `foo`, expected one of `dns`, `off`",
            ),
            (
                "unknown variant `of`, expected `on` or `off`",
                "unknown value `of`, expected `on` or `off`; did you mean `off`?",
            ),
            (
                "unknown field `thread`, expected one of `threads`, `queue`",
                "unknown field `thread`; did you mean `threads`?",
            ),
            ("unknown field `x`, expected `threads`", "unknown field `x`, expected `threads`"),
            (
                "invalid type: string \"four\", expected usize\nin `threads`\n",
                "invalid type: string \"four\", expected a whole number, 0 or more",
            ),
            (
                "invalid value: integer `99` as i128, expected u64",
                "invalid value: integer `99`, expected a whole number, 0 or more",
            ),
            (
                "invalid type: integer `1`, expected a boolean",
                "invalid type: integer `1`, expected true or false",
            ),
            ("unclosed table, expected `]`", "unclosed table, expected `]`"),
        ] {
            assert_eq!(with_nearest(message), said);
        }
    }
}

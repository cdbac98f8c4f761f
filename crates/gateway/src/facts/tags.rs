//! Lists of tags as DKIM, DMARC and BIMI records have them: `tag=value; tag=value`.

/// The tags with their values, blanks around them taken off, in order. What has no `=` is left out.
pub fn read(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(';').filter_map(|pair| {
        let (tag, value) = pair.split_once('=')?;
        Some((tag.trim(), value.trim()))
    })
}

/// The value of the first tag of this name.
pub fn get<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    read(text).find(|(tag, _)| tag.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

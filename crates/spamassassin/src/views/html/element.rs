//! The elements that SpamAssassin knows and how it handles each.

/// Properties of an element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element {
    pub(super) name: &'static str,
    /// An element of HTML 4.01, XHTML 1.0 or one of the few others that count as valid.
    pub(super) valid: bool,
    /// Changes fonts or colours.
    pub(super) styles: bool,
    /// Has attributes that are URIs.
    pub(super) links: bool,
    /// White space that its tags are rendered as.
    pub(super) space: Option<&'static str>,
    /// Its index in the table.
    pub(super) place: usize,
}

/// Names, sorted, with letters: `v` valid, `s` styles, `l` links; `n` is a line end, `p` two, `_` a
/// space.
#[rustfmt::skip]
const TABLE: &[(&str, &str)] = &[
    ("a", "vsl"), ("abbr", "v"), ("acronym", "v"), ("address", "v"), ("applet", "v"),
    ("area", "vl"), ("b", "v"), ("base", "vl"), ("basefont", "vs"), ("bdo", "v"),
    ("bgsound", "l"), ("big", "vs"), ("blockquote", "vp"), ("body", "vsl"), ("br", "vn"),
    ("button", "v"), ("caption", "v"), ("center", "v"), ("cite", "v"), ("code", "v"),
    ("col", "v"), ("colgroup", "v"), ("dd", "v_"), ("del", "v"), ("dfn", "v"), ("dir", "v"),
    ("div", "vsn"), ("dl", "v"), ("dt", "v_"), ("em", "v"), ("embed", "l_"), ("fieldset", "v"),
    ("font", "vs"), ("form", "vl"), ("frame", "vl"), ("frameset", "v"), ("h1", "v_"),
    ("h2", "v_"), ("h3", "v_"), ("h4", "v_"), ("h5", "v_"), ("h6", "v_"), ("head", "v"),
    ("hr", "vp"), ("html", "v"), ("i", "v"), ("iframe", "vl"), ("img", "vl"), ("input", "v"),
    ("ins", "v"), ("isindex", "v"), ("kbd", "v"), ("label", "v"), ("legend", "v"), ("li", "v_"),
    ("link", "vl"), ("listing", "p"), ("map", "v"), ("menu", "v"), ("meta", "vl"), ("nobr", "v"),
    ("noframes", "v"), ("noscript", "v"), ("object", "v"), ("ol", "v"), ("optgroup", "v"),
    ("option", "v"), ("p", "vsp"), ("param", "v"), ("plaintext", "p"), ("pre", "vp"), ("q", "v"),
    ("s", "v"), ("samp", "v"), ("script", "vl"), ("select", "v"), ("small", "vs"), ("span", "vs"),
    ("strike", "v"), ("strong", "v"), ("style", "v"), ("sub", "v"), ("sup", "v"),
    ("table", "vsl"), ("tbody", "v"), ("td", "vsl_"), ("textarea", "v"), ("tfoot", "v"),
    ("th", "vs_"), ("thead", "v"), ("title", "vp"), ("tr", "vsl"), ("tt", "v"), ("u", "v"),
    ("ul", "v"), ("var", "v"), ("x-sigsep", "v"), ("x-tab", "v"), ("xmp", "p"),
];

/// How many elements SpamAssassin's parser knows.
pub(super) const COUNT: usize = TABLE.len();

const ELEMENTS: [Element; COUNT] = {
    let mut all =
        [Element { name: "", valid: false, styles: false, links: false, space: None, place: 0 };
            COUNT];
    let mut place = 0;
    while place < COUNT {
        all[place] = element(place);
        place += 1;
    }
    all
};

/// For each byte the index of the first name that starts with it or a greater one.
const STARTS: [u8; 129] = {
    let mut starts = [COUNT as u8; 129];
    let mut place = COUNT;
    let mut byte = 128;
    while byte > 0 {
        byte -= 1;
        while place > 0 && TABLE[place - 1].0.as_bytes()[0] as usize >= byte {
            place -= 1;
        }
        starts[byte] = place as u8;
    }
    starts
};

const fn element(place: usize) -> Element {
    let (name, letters) = TABLE[place];
    let letters = letters.as_bytes();
    let mut element =
        Element { name, valid: false, styles: false, links: false, space: None, place };
    let mut i = 0;
    while i < letters.len() {
        match letters[i] {
            b'v' => element.valid = true,
            b's' => element.styles = true,
            b'l' => element.links = true,
            b'n' => element.space = Some("\n"),
            b'p' => element.space = Some("\n\n"),
            _ => element.space = Some(" "),
        }
        i += 1;
    }
    element
}

/// All of them, in the order of their names.
pub(super) fn all() -> &'static [Element; COUNT] {
    static ALL: [Element; COUNT] = ELEMENTS;
    &ALL
}

/// The element of this name (lower case).
pub(super) fn find(name: &str) -> Option<&'static Element> {
    let first = usize::from(*name.as_bytes().first()?);
    let (from, to) = (*STARTS.get(first)?, *STARTS.get(first + 1)?);
    all().get(usize::from(from)..usize::from(to))?.iter().find(|e| e.name == name)
}

/// The index of an element of the table.
pub(super) const fn place_of(name: &str) -> usize {
    let name = name.as_bytes();
    let mut place = 0;
    loop {
        let other = TABLE[place].0.as_bytes();
        let mut i = 0;
        while i < name.len() && i < other.len() && name[i] == other[i] {
            i += 1;
        }
        if i == name.len() && i == other.len() {
            return place;
        }
        place += 1;
    }
}

/// `o:name` and `st1:name`, as office programs write them; they count as valid.
pub(super) fn is_namespaced(name: &str) -> bool {
    let rest = match name.as_bytes() {
        [b'o', b':', rest @ ..] => rest,
        [b's', b't', digit, b':', rest @ ..] if digit.is_ascii_digit() => rest,
        _ => return false,
    };
    let rest = rest.strip_suffix(b"/").unwrap_or(rest);
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    std::str::from_utf8(rest).is_ok_and(|r| !r.is_empty() && r.chars().all(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_found() {
        assert!(TABLE.is_sorted_by_key(|e| e.0));
        assert!(find("br").is_some_and(|e| e.valid && e.space == Some("\n") && !e.links));
        assert!(find("xmp").is_some_and(|e| !e.valid && e.space == Some("\n\n")));
        assert!(find("marquee").is_none() && find("").is_none() && find("\u{e9}").is_none());
        for (place, (name, _)) in TABLE.iter().enumerate() {
            assert_eq!(find(name).map(|e| e.place), Some(place));
            assert_eq!(place_of(name), place);
        }
        assert!(is_namespaced("o:p") && is_namespaced("st1:place") && !is_namespaced("x:p"));
    }
}

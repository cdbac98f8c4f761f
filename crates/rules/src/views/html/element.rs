//! The elements that SpamAssassin knows and what it does with each.

use std::sync::LazyLock;

/// What is known of an element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element {
    /// Its name.
    pub(super) name: &'static str,
    /// An element of HTML 4.01, XHTML 1.0 or one of the few others that count as valid.
    pub(super) valid: bool,
    /// Changes fonts or colours.
    pub(super) styles: bool,
    /// Has attributes that are URIs.
    pub(super) links: bool,
    /// White space that its tags stand for.
    pub(super) space: Option<&'static str>,
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

static ELEMENTS: LazyLock<Vec<Element>> = LazyLock::new(|| TABLE.iter().map(element).collect());

fn element(&(name, letters): &(&'static str, &'static str)) -> Element {
    let space = letters.chars().find_map(|c| match c {
        'n' => Some("\n"),
        'p' => Some("\n\n"),
        '_' => Some(" "),
        _ => None,
    });
    let has = |c: char| letters.contains(c);
    Element { name, valid: has('v'), styles: has('s'), links: has('l'), space }
}

/// The element of this name (lower case).
pub(super) fn find(name: &str) -> Option<&'static Element> {
    let elements = &**ELEMENTS;
    elements.binary_search_by(|e| e.name.cmp(name)).ok().and_then(|i| elements.get(i))
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
        assert!(find("marquee").is_none());
        assert!(is_namespaced("o:p") && is_namespaced("st1:place") && !is_namespaced("x:p"));
    }
}

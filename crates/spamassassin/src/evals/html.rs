//! What HTML parts are made of.

use super::args::Args;
use super::context::EvalContext;
use super::text::leading_number;

/// `html_test(fact)`: a fact is there and not zero.
pub(super) fn test(cx: &EvalContext<'_>, args: &Args) -> bool {
    let name = args.word(0).unwrap_or_default();
    let is_there = |html: &crate::views::HtmlState| {
        html.number(name).is_some_and(|n| n != 0.0) || !html.texts(name).is_empty()
    };
    cx.html().any(is_there)
}

/// `html_range(fact, min, [max])`: above `min` and not above `max`; `inf` is no bound.
pub(super) fn range(cx: &EvalContext<'_>, args: &Args) -> bool {
    let name = args.word(0).unwrap_or_default();
    let max = args.word(2).filter(|max| *max != "inf").map(leading_number);
    cx.html()
        .filter_map(|html| html.number(name))
        .any(|value| value > args.number(1) && max.is_none_or(|max| value <= max))
}

/// `html_eval(fact, comparison)`: the fact compared with a number, e.g. `< 384`.
pub(super) fn compare(cx: &EvalContext<'_>, args: &Args) -> bool {
    let name = args.word(0).unwrap_or_default();
    let Some(comparison) = args.comparison else { return false };
    cx.html().filter_map(|html| html.number(name)).any(|value| comparison.holds(value))
}

/// `html_tag_balance(tag, comparison)`: how many of a tag are open at the end.
pub(super) fn tag_balance(cx: &EvalContext<'_>, args: &Args) -> bool {
    let tag = args.word(0).unwrap_or_default();
    let Some(comparison) = args.comparison else { return false };
    !tag.is_empty()
        && tag.bytes().all(|b| b.is_ascii_alphanumeric())
        && cx.html().filter_map(|html| html.inside(tag)).any(|n| comparison.holds(f64::from(n)))
}

/// `html_tag_exists(tag)`.
pub(super) fn tag_exists(cx: &EvalContext<'_>, args: &Args) -> bool {
    args.word(0).is_some_and(|tag| cx.html().any(|html| html.inside(tag).is_some()))
}

/// `html_image_only(min, max)`: images, and a source length in this range.
pub(super) fn image_only(cx: &EvalContext<'_>, args: &Args) -> bool {
    cx.html().any(|html| {
        let length = html.number("length").unwrap_or_default();
        html.inside("img").is_some() && length > args.number(0) && length <= args.number(1)
    })
}

/// `html_image_ratio(min, max)`: characters of text per pixel of images.
pub(super) fn image_ratio(cx: &EvalContext<'_>, args: &Args) -> bool {
    cx.html().any(|html| {
        let (Some(text), Some(area)) = (html.number("non_space_len"), html.number("image_area"))
        else {
            return false;
        };
        let ratio = text / area;
        area > 0.0 && ratio > args.number(0) && ratio <= args.number(1)
    })
}

/// `html_text_match(texts, pattern)`: a comment, script, title or anchor matches.
pub(super) fn text_match(cx: &EvalContext<'_>, args: &Args) -> bool {
    let (Some(name), Some(pattern)) = (args.word(0), &args.pattern) else { return false };
    cx.html().any(|html| html.texts(name).iter().any(|t| pattern.is_match(&t.as_bytes())))
}

/// `html_text_not_match(texts, pattern)`: some comment, script, title or anchor does not match.
pub(super) fn text_not_match(cx: &EvalContext<'_>, args: &Args) -> bool {
    let (Some(name), Some(pattern)) = (args.word(0), &args.pattern) else { return false };
    cx.html().any(|html| html.texts(name).iter().any(|t| !pattern.is_match(&t.as_bytes())))
}

/// `html_title_subject_ratio(min)`: a title longer than the subject by more than this factor.
pub(super) fn title_ratio(cx: &EvalContext<'_>, args: &Args) -> bool {
    let subject = cx.text("Subject");
    if subject.is_empty() {
        return false;
    }
    cx.html().any(|html| {
        let longest = html.texts("title").iter().map(|t| t.len()).max().unwrap_or_default();
        longest as f64 / subject.len() as f64 > args.number(0)
    })
}

/// `check_iframe_src()`: an `<iframe>` with a source.
pub(super) fn iframe_source(cx: &EvalContext<'_>, _: &Args) -> bool {
    cx.html().any(|html| html.uris.iter().any(|u| u.types.contains(&"iframe")))
}

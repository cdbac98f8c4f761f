//! Attached images: how many, how large.

use super::args::Args;
use super::context::EvalContext;
use super::memo::{Images, Tally};
use super::mime::{image_kind, is_base64};
use super::text::leading_number;
use gauntlet_rules::rule::EvalKind;

fn tally(cx: &EvalContext<'_>, args: &Args) -> Option<Tally> {
    images(cx).of(args.word(0)?)
}

fn images<'a>(cx: &'a EvalContext<'_>) -> &'a Images {
    cx.memo.images.get_or_init(|| {
        let mut images = Images::default();
        let tree = cx.tree();
        for node in tree.in_order().into_iter().map(|i| &tree.nodes[i]).filter(|n| n.is_leaf) {
            let Some(kind) = image_kind(&node.kind).filter(|_| is_base64(node)) else { continue };
            let data = node.decoded();
            let (tally, size) = match kind {
                "gif" => (&mut images.gif, gif_size(data)),
                "png" => (&mut images.png, png_size(data)),
                _ => (&mut images.jpeg, jpeg_size(data)),
            };
            tally.count += 1;
            let Some((height, width)) = size.filter(|&(h, w)| h > 0 && w > 0) else { continue };
            tally.area += u64::from(height) * u64::from(width);
            tally.sizes.insert((height, width));
            images.names.extend(node.name.clone());
        }
        images
    })
}

/// `image_count(kind, min, [max])`.
pub(super) fn count(cx: &EvalContext<'_>, args: &Args) -> bool {
    tally(cx, args).is_some_and(|t| within(t.count as f64, args))
}

/// `pixel_coverage(kind, min, [max])`.
pub(super) fn coverage(cx: &EvalContext<'_>, args: &Args) -> bool {
    tally(cx, args).is_some_and(|t| within(t.area as f64, args))
}

fn within(value: f64, args: &Args) -> bool {
    args.word(1).is_some()
        && value >= args.number(1)
        && args.word(2).is_none_or(|max| value <= leading_number(max))
}

/// `image_to_text_ratio(kind, min, max)`: bytes of text per pixel. A `rawbody` rule counts the raw
/// text, a `body` rule the rendered one.
pub(super) fn text_ratio(cx: &EvalContext<'_>, args: &Args) -> bool {
    let Some(area) = tally(cx, args).map(|t| t.area).filter(|&a| a > 0) else { return false };
    let texts = if args.kind == EvalKind::Rawbody { cx.views.rawbody() } else { cx.views.body() };
    let bytes: usize = texts.iter().map(|t| t.len()).sum();
    let ratio = bytes as f64 / area as f64;
    bytes > 0 && args.word(2).is_some() && ratio >= args.number(1) && ratio < args.number(2)
}

/// `image_size_exact(kind, height, width)`.
pub(super) fn size_exact(cx: &EvalContext<'_>, args: &Args) -> bool {
    let (height, width) = (args.number(1) as u32, args.number(2) as u32);
    tally(cx, args).is_some_and(|t| t.sizes.contains(&(height, width)))
}

/// `image_size_range(kind, height_min, width_min, [height_max], [width_max])`.
pub(super) fn size_range(cx: &EvalContext<'_>, args: &Args) -> bool {
    let max = |i| args.word(i).map_or(f64::INFINITY, leading_number);
    tally(cx, args).is_some_and(|t| {
        t.sizes.iter().map(|&(h, w)| (f64::from(h), f64::from(w))).any(|(height, width)| {
            height >= args.number(1)
                && width >= args.number(2)
                && height <= max(3)
                && width <= max(4)
        })
    })
}

/// `image_named(name)`.
pub(super) fn named(cx: &EvalContext<'_>, args: &Args) -> bool {
    args.word(0).is_some_and(|name| images(cx).names.contains(name.as_bytes()))
}

/// `image_name_regex(pattern)`.
pub(super) fn name_matches(cx: &EvalContext<'_>, args: &Args) -> bool {
    let pattern = args.pattern.as_ref();
    pattern.is_some_and(|p| images(cx).names.iter().any(|name| p.is_match(name)))
}

fn u16_le(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?)))
}

fn u16_be(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?)))
}

fn u32_be(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// Height and width (GIF89a, section 18: logical screen descriptor).
fn gif_size(data: &[u8]) -> Option<(u32, u32)> {
    if !data.starts_with(b"GIF87a") && !data.starts_with(b"GIF89a") {
        return None;
    }
    Some((u16_le(data, 8)?, u16_le(data, 6)?))
}

/// Height and width (PNG section 11.2.2: the IHDR chunk; it is looked for at every eighth byte, as
/// chunk lengths are not trusted).
fn png_size(data: &[u8]) -> Option<(u32, u32)> {
    if !data.starts_with(b"\x89PNG\r\n\x1a\n") {
        return None;
    }
    let mut at = 8;
    while at < data.len() {
        let kind = data.get(at + 4..at + 8)?;
        if kind == b"IEND" {
            return None;
        }
        if kind == b"IHDR" && u32_be(data, at) == Some(13) {
            return Some((u32_be(data, at + 12)?, u32_be(data, at + 8)?));
        }
        at += 8;
    }
    None
}

/// Height and width (JPEG, ITU T.81 section B.2.2: a start-of-frame segment).
fn jpeg_size(data: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    if !data.starts_with(&[0xff, 0xd8]) {
        return None;
    }
    loop {
        let (marker, kind) = (*data.get(at)?, *data.get(at + 1)?);
        let length = u16_be(data, at + 2)?;
        if marker != 0xff || kind == 0xda || kind == 0xd9 || length < 2 {
            return None;
        }
        at += 4;
        if matches!(kind, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf) {
            return Some((u16_be(data, at + 1)?, u16_be(data, at + 3)?));
        }
        at += length as usize - 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_images() {
        assert_eq!(gif_size(b"GIF89a\x0a\x00\x14\x00xxx"), Some((20, 10)));
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x0a\0\0\0\x14\x08\x06\0\0\0";
        assert_eq!(png_size(png), Some((20, 10)));
        let jpeg = [0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xc0, 0, 9, 8, 0, 20, 0, 10, 3, 0];
        assert_eq!(jpeg_size(&jpeg), Some((20, 10)));
        for junk in [&b""[..], b"GIF89a", b"\x89PNG\r\n\x1a\n\0", &[0xff, 0xd8, 0xff]] {
            assert_eq!((gif_size(junk), png_size(junk), jpeg_size(junk)), (None, None, None));
        }
    }
}

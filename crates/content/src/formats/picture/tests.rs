use super::Gray;
use super::bits::Bits;
use super::{bitmap, finder, header, qr};
use crate::formats::testing::places;
use crate::object::{DefectKind, Object, PropertyKind, UrlSource};
use crate::{Limits, NoHost, Root, unpack};

const URL: &str = "https://login.example.com/a?b=c";

/// A code, `scale` pixels to a module, `margin` modules around it.
pub(crate) fn code(text: &str, scale: usize, margin: usize) -> Gray {
    let code = qrcodegen::QrCode::encode_text(text, qrcodegen::QrCodeEcc::Medium).unwrap();
    let size = code.size() as usize + 2 * margin;
    let mut gray = Gray { width: size, height: size, pixels: Vec::new() };
    for y in 0..size {
        for x in 0..size {
            let (x, y) = (x as i32 - margin as i32, y as i32 - margin as i32);
            gray.pixels.push(if code.get_module(x, y) { 0 } else { 255 });
        }
    }
    gray.larger(scale)
}

fn paste(onto: &mut Gray, from: &Gray, x: usize, y: usize) {
    for row in 0..from.height {
        let at = (y + row) * onto.width + x;
        onto.pixels[at..at + from.width].copy_from_slice(from.row(row));
    }
}

fn rotated(gray: &Gray, degrees: f64) -> Gray {
    let side = gray.width * 3 / 2;
    let (sin, cos) = degrees.to_radians().sin_cos();
    let mut pixels = Vec::new();
    for y in 0..side {
        for x in 0..side {
            let (dx, dy) = (x as f64 - side as f64 / 2.0, y as f64 - side as f64 / 2.0);
            let (sx, sy) = (dx * cos + dy * sin, dy * cos - dx * sin);
            let (sx, sy) = (sx + gray.width as f64 / 2.0, sy + gray.height as f64 / 2.0);
            let inside = sx >= 0.0 && sy >= 0.0;
            let (sx, sy) = (sx as usize, sy as usize);
            let inside = inside && sx < gray.width && sy < gray.height;
            pixels.push(if inside { gray.pixels[sy * gray.width + sx] } else { 255 });
        }
    }
    Gray { width: side, height: side, pixels }
}

pub(crate) fn png(gray: &Gray) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, gray.width as u32, gray.height as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().unwrap().write_image_data(&gray.pixels).unwrap();
    bytes
}

fn gif(gray: &Gray) -> Vec<u8> {
    let (width, height) = (gray.width as u16, gray.height as u16);
    let palette: Vec<u8> = (0..=255).flat_map(|v| [v; 3]).collect();
    let mut bytes = Vec::new();
    let mut encoder = gif::Encoder::new(&mut bytes, width, height, &palette).unwrap();
    let mut frame = gif::Frame { width, height, ..gif::Frame::default() };
    frame.buffer = gray.pixels.clone().into();
    encoder.write_frame(&frame).unwrap();
    drop(encoder);
    bytes
}

/// A bitmap of one bit per pixel, from the bottom.
fn bmp(gray: &Gray) -> Vec<u8> {
    let mut bytes = b"BM\0\0\0\0\0\0\0\0\x3e\0\0\0\x28\0\0\0".to_vec();
    bytes.extend_from_slice(&(gray.width as u32).to_le_bytes());
    bytes.extend_from_slice(&(gray.height as u32).to_le_bytes());
    bytes.extend_from_slice(b"\x01\0\x01\0");
    bytes.extend_from_slice(&[0; 24]);
    bytes.extend_from_slice(&[0, 0, 0, 0, 255, 255, 255, 0]);
    for y in (0..gray.height).rev() {
        let mut row = vec![0; gray.width.div_ceil(32) * 4];
        for (x, &p) in gray.row(y).iter().enumerate() {
            row[x / 8] |= u8::from(p > 0) << (7 - x % 8);
        }
        bytes.extend_from_slice(&row);
    }
    bytes
}

fn read(bytes: &[u8]) -> Object {
    let root = Root { name: "a", declared_type: "", bytes };
    unpack(&[root], &Limits::default(), &[], &mut NoHost).objects.remove(0)
}

fn codes(gray: &Gray) -> Vec<String> {
    qr::search(gray).codes
}

#[test]
fn codes_in_pictures_of_each_format_become_urls() {
    let gray = code(URL, 4, 4);
    for bytes in [png(&gray), gif(&gray), bmp(&gray)] {
        let object = read(&bytes);
        assert_eq!(object.kind, gauntlet_sniff::FileKind::Image);
        let url = object.urls.first().map(|u| (u.url.as_str(), u.source));
        assert_eq!(url, Some((URL, UrlSource::QrCode)), "{object:?}");
        assert!(object.has(PropertyKind::QrCode) && object.text.contains(URL));
        let size = format!("{0}x{0}", gray.width);
        assert!(object.properties.iter().any(|p| p.detail == size));
    }
}

#[test]
fn codes_are_found_small_large_inverted_rotated_and_uneven() {
    for scale in [1, 2, 3, 7, 20, 60] {
        assert_eq!(codes(&code(URL, scale, 4)), [URL], "scale {scale}");
    }
    assert_eq!(codes(&code(URL, 4, 4).inverted()), [URL], "inverted");
    for degrees in [5.0, 33.0, 45.0, 90.0, 181.0] {
        assert_eq!(codes(&rotated(&code(URL, 5, 4), degrees)), [URL], "{degrees} degrees");
    }
    let mut uneven = code(URL, 5, 4);
    let width = uneven.width;
    for (index, p) in uneven.pixels.iter_mut().enumerate() {
        let light = 60 + 180 * (index % width) / width;
        *p = u8::try_from(usize::from(*p / 2 + 100) * light / 255).unwrap();
    }
    assert_eq!(codes(&uneven), [URL], "a shadow");
}

#[test]
fn several_codes_and_a_small_one_on_a_large_page() {
    let mut page = Gray { width: 900, height: 900, pixels: vec![255; 810_000] };
    let texts = ["one.example/1", "two.example/2", "three.example/3", "four.example/4"];
    for (index, text) in texts.iter().enumerate() {
        let from = code(text, 3 + index, 4);
        paste(&mut page, &from, 20 + index % 2 * 450, 20 + index / 2 * 450);
    }
    let mut found = codes(&page);
    found.sort();
    assert_eq!(found, ["four.example/4", "one.example/1", "three.example/3", "two.example/2"]);

    let mut page = Gray { width: 3_000, height: 3_000, pixels: vec![255; 9_000_000] };
    paste(&mut page, &code(URL, 2, 4), 1_500, 2_000);
    assert_eq!(codes(&page), [URL]);
}

#[test]
fn a_page_crowded_with_patterns_is_searched_in_parts() {
    let mut page = Gray { width: 1_400, height: 1_400, pixels: vec![255; 1_960_000] };
    for index in 0..36 {
        let from = code(&format!("https://example.com/{index}"), 4, 4);
        paste(&mut page, &from, index % 6 * 220, index / 6 * 220);
    }
    assert!(codes(&page).len() >= 16, "{}", codes(&page).len());
}

#[test]
fn plain_pictures_have_no_finder_patterns() {
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    let gray = Gray { width: 300, height: 300, pixels: (0..90_000).map(|_| noise()).collect() };
    let bits: Bits = Bits::of(&gray);
    let count = finder::find(&bits).0.len();
    assert!(count < 8, "{count}");
    assert!(codes(&gray).is_empty());
}

#[test]
fn what_a_code_says_may_be_a_url() {
    assert_eq!(qr::url("HTTPS://EXAMPLE.COM/A"), Some("HTTPS://EXAMPLE.COM/A"));
    assert_eq!(qr::url("example.com/a"), Some("example.com/a"));
    assert_eq!(qr::url("MEBKM:TITLE:a;URL:http://b.example/c;;"), Some("http://b.example/c"));
    for text in ["WIFI:S:net;T:WPA;P:word;;", "hello world.com x", "12.50", "tel:+49123", "a"] {
        assert_eq!(qr::url(text), None, "{text}");
    }
}

#[test]
fn a_header_of_a_huge_picture_is_refused_before_decoding() {
    let mut bytes = png(&code(URL, 1, 4));
    bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let object = read(&bytes);
    assert!(object.properties.iter().any(|p| p.detail == "65536x65536"));
    assert_eq!(object.defects[0].kind, DefectKind::TooMuchMemory);
    let mut bytes = bmp(&code(URL, 1, 4));
    bytes[18..26].copy_from_slice(&[0xff; 8]);
    assert!(read(&bytes).urls.is_empty());
    assert!(bitmap::decode(&bytes).is_none());
}

#[test]
fn headers_of_formats_that_are_not_decoded() {
    let tiff =
        b"II*\0\x08\0\0\0\x02\0\0\x01\x04\0\x01\0\0\0\x40\x06\0\0\x01\x01\x03\0\x01\0\0\0\x58\x02";
    let icon = [0, 0, 1, 0, 1, 0, 0, 32, 0, 0, 1, 0, 32, 0, 4, 0, 0, 0, 22, 0, 0, 0];
    let size = |bytes: &[u8]| header::read(bytes).map(|h| (h.width, h.height));
    assert_eq!(size(tiff), Some((1_600, 600)));
    assert_eq!(size(&icon), Some((256, 32)));
    let webp = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x1f\x03\0\x57\x02\0";
    assert_eq!(size(webp), Some((800, 600)));
    let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x11\x08\x01\x02\x03\x04\x03";
    assert_eq!(size(jpeg), Some((0x304, 0x102)));
}

#[test]
fn damaged_pictures_are_bounded() {
    let gray = code("a", 1, 2);
    for whole in [png(&gray), gif(&gray), bmp(&gray)] {
        for end in places(whole.len()) {
            read(&whole[..end]);
        }
        for at in places(whole.len()) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0xff;
            read(&flipped);
        }
    }
}

use crate::formats::testing::{file, nasty, paths, tree, zip};
use crate::{FileKind, PropertyKind};

/// A program of one section of 512 bytes.
fn program() -> Vec<u8> {
    let mut bytes = vec![0u8; 1_024];
    bytes[..2].copy_from_slice(b"MZ");
    bytes[0x3c] = 0x80;
    bytes[0x80..0x86].copy_from_slice(b"PE\0\0\x4c\x01");
    bytes[0x86] = 1;
    let section = 0x80 + 24;
    bytes[section + 16..section + 24].copy_from_slice(&[0, 2, 0, 0, 0, 2, 0, 0]);
    bytes
}

fn picture() -> Vec<u8> {
    let mut gif = b"GIF89a\x01\0\x01\0\0\0\0".to_vec();
    gif.extend(b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b");
    gif
}

#[test]
fn a_self_extracting_archive() {
    let archive = zip(&[file("run.js", b"WScript.Echo(1)")]);
    let whole = [program(), archive].concat();
    let found = tree(&whole, "setup.exe");
    assert_eq!(
        paths(&found),
        ["setup.exe", "setup.exe/carved-at-1024.zip", "setup.exe/carved-at-1024.zip/run.js"]
    );
    assert!(found.objects[0].has(PropertyKind::DataBehind));
    nasty(&whole, "setup.exe");
}

#[test]
fn a_program_behind_a_picture_and_one_in_a_program() {
    let found = tree(&[picture(), program()].concat(), "a.gif");
    assert_eq!(found.objects[1].kind, FileKind::WindowsProgram);
    assert_eq!(found.objects[1].size, 1_024);
    // Two programs in a third: each ends where its sections do.
    let mut other = program();
    other[1_000] = 1;
    let found = tree(&[program(), program(), other].concat(), "a.exe");
    let sizes: Vec<u64> = found.objects.iter().map(|o| o.size).collect();
    assert_eq!(sizes, [3_072, 1_024, 1_024]);
    // The letters alone are none.
    let found = tree(&[picture(), b"MZ and more that is no program at all".to_vec()].concat(), "a");
    assert_eq!(found.objects.len(), 1);
}

#[test]
fn a_zip_whose_offsets_count_from_the_picture() {
    let (front, mut archive) = (picture(), zip(&[file("a.txt", b"hello")]));
    let shift = front.len() as u32;
    let end = archive.len() - 22;
    let start = u32::from_le_bytes(archive[end + 16..end + 20].try_into().unwrap());
    archive[end + 16..end + 20].copy_from_slice(&(start + shift).to_le_bytes());
    let local = start as usize + 42;
    archive[local..local + 4].copy_from_slice(&shift.to_le_bytes());
    let found = tree(&[front, archive].concat(), "a.gif");
    assert!(paths(&found)[2].ends_with(".zip/a.txt"), "{:?}", paths(&found));
    assert_eq!(found.objects[2].text, "hello");
}

#[test]
fn what_an_archive_holds_is_not_carved_again() {
    let inner = zip(&[file("a.txt", b"hello")]);
    let outer = zip(&[file("inner.zip", &inner)]);
    assert_eq!(tree(&outer, "a.zip").objects.len(), 3);
    // A second archive behind the first one is.
    let found = tree(&[outer, program()].concat(), "a.zip");
    assert!(paths(&found).last().unwrap().ends_with(".exe"), "{:?}", paths(&found));
}

#[test]
fn a_zip_behind_a_pdf_and_a_program_before_it() {
    let pdf = b"%PDF-1.4\n1 0 obj\n<</Type/Catalog>>\nendobj\ntrailer<</Root 1 0 R>>\n%%EOF\n";
    let whole = [&pdf[..], &zip(&[file("a.exe", &program())])].concat();
    let found = tree(&whole, "a.pdf");
    assert!(paths(&found)[1].starts_with("a.pdf/carved-at-"), "{:?}", paths(&found));
    assert!(found.objects[0].has(PropertyKind::DataBehind));
    let script = [&b"#!/bin/sh\nexit 0\n"[..], pdf].concat();
    assert_eq!(tree(&script, "a.sh").objects[1].kind, FileKind::Pdf);
}

//! Archives made by the tests, and a few made by 7-Zip once.

use crate::formats::testing::{File, base64, file, nasty, paths, tree, tree_with, zip};
use crate::{DefectKind, PropertyKind, Tree};

#[test]
fn files_in_files() {
    let inner = zip(&[file("run.exe", b"MZ\x90\0")]);
    let outer = zip(&[file("read.txt", b"hello"), file("in/ner.zip", &inner)]);
    let found = tree(&outer, "a.zip");
    assert_eq!(
        paths(&found),
        ["a.zip", "a.zip/read.txt", "a.zip/in/ner.zip", "a.zip/in/ner.zip/run.exe"]
    );
    assert!(found.objects.iter().all(|o| o.defects.is_empty() && !o.has(PropertyKind::Ambiguous)));
    nasty(&outer, "a.zip");
}

#[test]
fn what_only_one_reader_sees_is_read() {
    let hidden = File { listed: false, ..file("hidden.exe", b"MZ") };
    let found = tree(&zip(&[file("shown.txt", b"x"), hidden]), "a.zip");
    assert!(paths(&found).contains(&"a.zip/hidden.exe"));
    assert_eq!(found.objects[0].properties[0].detail, "in no directory: hidden.exe");
    let renamed = File { local: "b.exe", ..file("a.txt", b"MZ") };
    assert!(tree(&zip(&[renamed]), "a.zip").objects[0].has(PropertyKind::Ambiguous));
    // Two archives behind each other: programs open the first or the last.
    let two = [zip(&[file("one.txt", b"1")]), zip(&[file("two.txt", b"2")])].concat();
    let found = tree(&two, "a.zip");
    assert!(paths(&found).contains(&"a.zip/one.txt") && paths(&found).contains(&"a.zip/two.txt"));
    assert!(found.objects[0].has(PropertyKind::Ambiguous));
    // Without its directory.
    let whole = zip(&[file("a.txt", b"hello")]);
    let found = tree(&whole[..40], "a.zip");
    assert_eq!(paths(&found), ["a.zip", "a.zip/a.txt"]);
}

#[test]
fn shared_bytes_are_a_bomb() {
    let mut whole = zip(&[file("a", b"0123456789"), file("b", b"0123456789")]);
    // The second entry of the directory points to the first one's bytes.
    let central = memchr::memmem::rfind(&whole, b"PK\x01\x02").unwrap();
    whole[central + 42..central + 46].copy_from_slice(&0u32.to_le_bytes());
    let found = tree(&whole, "a.zip");
    let names = paths(&found);
    assert!(names.len() <= 3, "{names:?}");
}

#[test]
fn encrypted_by_either_kind() {
    for (archive, name) in [(AES, "aes.zip"), (CRYPTO, "crypto.zip")] {
        let bytes = base64(archive);
        let closed = tree(&bytes, name);
        assert_eq!(closed.objects[0].defects[0].kind, DefectKind::Encrypted, "{name}");
        assert_eq!(closed.objects[1].name, "a.txt");
        assert_eq!(closed.objects[1].size, 0);
        let opened = tree_with(&bytes, name, &["wrong", "secret"]);
        assert_eq!(opened.objects[1].size, 15, "{name}: {opened:?}");
        assert!(opened.objects[0].defects.is_empty());
        assert!(opened.objects[0].has(PropertyKind::PasswordFound));
        nasty(&bytes, name);
    }
    for (archive, name) in [(SEVENZ_NAMES, "enc.7z"), (SEVENZ, "enc2.7z")] {
        let bytes = base64(archive);
        let closed = tree(&bytes, name);
        assert!(
            closed.objects[0].defects.iter().any(|d| d.kind == DefectKind::Encrypted),
            "{closed:?}"
        );
        let opened = tree_with(&bytes, name, &["wrong", "secret"]);
        assert_eq!(opened.objects[1].size, 15, "{name}");
    }
}

#[test]
fn flags_of_encryption_that_contradict_each_other_or_the_data() {
    let flag = |bytes: &mut [u8], header: &[u8], at: usize| {
        let header = memchr::memmem::find(bytes, header).unwrap();
        bytes[header + at] |= 1;
    };
    let body = b"MZ and no password";
    for (in_local, in_directory) in [(true, false), (false, true), (true, true)] {
        let mut whole = zip(&[file("run.exe", body)]);
        if in_local {
            flag(&mut whole, b"PK\x03\x04", 6);
        }
        if in_directory {
            flag(&mut whole, b"PK\x01\x02", 8);
        }
        let found = tree(&whole, "a.zip");
        assert_eq!(paths(&found), ["a.zip", "a.zip/run.exe"]);
        assert_eq!(found.objects[1].size, body.len() as u64);
        assert!(found.objects[0].has(PropertyKind::Ambiguous), "{found:?}");
        assert!(found.objects[0].defects.is_empty(), "{found:?}");
        // With a wrong checksum, too, where one header says that it is clear.
        if in_local != in_directory {
            let text = memchr::memmem::find(&whole, b"password").unwrap();
            whole[text] = b'P';
            let found = tree(&whole, "a.zip");
            assert_eq!(found.objects[1].size, body.len() as u64);
            assert!(found.objects[0].has(PropertyKind::Ambiguous), "{found:?}");
        }
        nasty(&whole, "a.zip");
    }
    // What is encrypted opens as well if one header denies it.
    let mut sealed = base64(CRYPTO);
    sealed[6] &= !1;
    let opened = tree_with(&sealed, "crypto.zip", &["secret"]);
    let sizes: Vec<u64> = opened.objects.iter().map(|o| o.size).collect();
    assert_eq!(sizes[1..], [27, 15], "both readings: {opened:?}");
    assert!(opened.objects[0].has(PropertyKind::Ambiguous));
}

#[test]
fn a_later_block_of_a_7z_is_encrypted_and_the_others_are_read() {
    let bytes = base64(SEVENZ_LATER_BLOCK);
    let closed = tree(&bytes, "a.7z");
    let kinds: Vec<DefectKind> = closed.objects[0].defects.iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [DefectKind::Encrypted]);
    let all = ["a.7z", "a.7z/read.txt", "a.7z/run.exe", "a.7z/last.txt"];
    assert_eq!(paths(&closed), all);
    let sizes = |tree: &Tree| -> Vec<u64> { tree.objects[1..].iter().map(|o| o.size).collect() };
    assert_eq!(sizes(&closed), [21, 0, 25], "what is clear is read");
    let opened = tree_with(&bytes, "a.7z", &["wrong", "secret"]);
    assert_eq!((paths(&opened), sizes(&opened)), (paths(&closed), vec![21, 23, 25]));
    assert!(
        opened.objects[0].defects.is_empty() && opened.objects[0].has(PropertyKind::PasswordFound)
    );
    nasty(&bytes, "a.7z");
}

#[test]
fn every_method() {
    for (archive, name) in
        [(DEFLATE, "deflate"), (DEFLATE64, "deflate64"), (BZIP2, "bzip2"), (LZMA, "lzma")]
    {
        let found = tree(&base64(archive), name);
        assert_eq!(found.objects[1].size, 580, "{name}: {found:?}");
        assert!(found.objects[0].defects.is_empty(), "{name}: {found:?}");
    }
    for (file, name) in [
        (FILE_BZ2, "b.txt.bz2"),
        (FILE_LZMA, "b.txt.lzma"),
        (FILE_ZST, "b.txt.zst"),
        (FILE_XZ, "a.txt.xz"),
    ] {
        let bytes = base64(file);
        let found = tree(&bytes, name);
        assert_eq!(found.objects.len(), 2, "{name}: {found:?}");
        assert!(
            found.objects[1].name.ends_with(".txt") && found.objects[1].size > 0,
            "{name}: {found:?}"
        );
        nasty(&bytes, name);
    }
}

#[test]
fn a_bomb_ends_early() {
    use std::io::Write;
    let mut packed = Vec::new();
    let mut writer = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::best());
    for _ in 0..200 {
        writer.write_all(&vec![0; 1 << 20]).unwrap();
    }
    writer.finish().unwrap();
    let found = tree(&packed, "bomb.gz");
    assert_eq!(found.objects[0].defects[0].kind, DefectKind::Bomb);
    assert!(found.objects[1].size < 24 << 20);
}

#[test]
fn a_million_entries_and_deep_nesting() {
    let mut whole = zip(&[file("x", b"y")]);
    for _ in 0..200 {
        whole = zip(&[file("z.zip", &whole)]);
    }
    let found = tree(&whole, "deep.zip");
    assert!(found.objects.iter().any(|o| o.defects.iter().any(|d| d.kind == DefectKind::TooDeep)));
    let names: Vec<String> = (0..60_000).map(|i| format!("f{i}")).collect();
    let files: Vec<File<'_>> = names.iter().map(|name| file(name, b"")).collect();
    let found = tree(&zip(&files), "many.zip");
    assert!(found.objects.len() <= 2_000);
    assert!(found.objects[0].defects.iter().any(|d| d.kind == DefectKind::TooManyObjects));
}

const AES: &str = "\
    UEsDBDMAAQBjAMFrd10AAAAAKwAAAA8AAAAFAAsAYS50eHQBmQcAAgBBRQMAAAgYINTDbXHAjn1mqpsCLqKAVTp8\
    pDz0WPPW/Nakf1cp1GlledvyMR6YBUZQSwECPwMzAAEAYwDBa3ddAAAAACsAAAAPAAAABQAvAAAAAAAAACCApIEA\
    AAAAYS50eHQKACAAAAAAAAEAGACx8Ru9TnvdAQAAAAAAAAAAAAAAAAAAAAABmQcAAgBBRQMAAFBLBQYAAAAAAQAB\
    AGIAAABZAAAAAAA=";
const CRYPTO: &str = "\
    UEsDBBQAAQAAAMFrd11rJ2ETGwAAAA8AAAAFAAAAYS50eHR8btJmC7HpTL7ay3RbjCQzhd2l8cwYaevMKF1QSwEC\
    PwMUAAEAAADBa3ddaydhExsAAAAPAAAABQAkAAAAAAAAACCApIEAAAAAYS50eHQKACAAAAAAAAEAGACx8Ru9Tnvd\
    AQAAAAAAAAAAAAAAAAAAAABQSwUGAAAAAAEAAQBXAAAAPgAAAAAA";
const SEVENZ_NAMES: &str = "\
    N3q8ryccAAQyGCbdkAAAAAAAAAAuAAAAAAAAAPisFF33vvjqp/KNe4RZzlJR88qhNlfWQq6qb4dsHGLfE3nupnJm\
    oKQj2r4T87LVL//2uDmmFosY0+6Qp6CqSGkkCF+SdBCuj79Ui7CLUmgwR+AzOJy5FZJnJe8k1tzHwYTI8o78KdXh\
    tQd+gc2+IEjEYzh2Gy3olzMm/OMGVcBEpd+7RHTUtoARt3UrHRABOB9c7XoXBiABCXAABwsBAAEkBvEHARJTD6Sr\
    46umpuiiydKH/ntTKv0MYgoB4wtn8AAA";
const SEVENZ: &str = "\
    N3q8ryccAATCoJn4IAAAAAAAAABiAAAAAAAAAOIkvwxBIMdQRwUXi/6EG2deIgzYNn+wEg8YlgFnOvCs3/iV/wEE\
    BgABCSAABwsBAAIkBvEHARJTD9DifoYVseU7Tmkvx2XUrNAhIQEAAQAMEw8ACAoBaydhEwAABQEZAQARDQBhAC4A\
    dAB4AHQAAAAUCgEAsfEbvU573QEVBgEAIICkgQAA";
/// Three blocks, the second of them encrypted with `secret`; made by `sevenz-rust2`.
pub(in crate::formats::archive) const SEVENZ_LATER_BLOCK: &str = "\
    N3q8ryccAARucHUBVgAAAAAAAACnAAAAAAAAAIE0IHoBABROb3RoaW5nIHRvIHNlZSBoZXJlLgoA7Bk6WQMLsViErY\
    /667qPWN8CgQDMKM7XSXjLQid8E94BABhBbmQgdGhpcyBpcyBjbGVhciBhZ2Fpbi4KAAEEBgADCRkgHQoBrByXO1ud\
    DtTDKVbHAAcLAwABISEBFgIkBvEHASLI/yc6Fn+U2sUkjM7f9p5RX+q/CI+8g19TxiHDsgxt+wHIISEBFgEAASEhAR\
    YMFRsXGQAICgHLp+BgySE3LeL1mhkAAAUDETUAcgBlAGEAZAAuAHQAeAB0AAAAcgB1AG4ALgBlAHgAZQAAAGwAYQBz\
    AHQALgB0AHgAdAAAAAAA";
const DEFLATE: &str = "\
    UEsDBBQAAAAIAOBrd12JtaeIKwAAAEQCAAAFAAAAYi50eHTtyTENADAIBEArLwBTPzTtJ4R2rnoGDCCA8XJnuV8o\
    QHw9Q5mbCsPkZCMTUEsBAj8DFAAAAAgA4Gt3XYm1p4grAAAARAIAAAUAJAAAAAAAAAAggKSBAAAAAGIudHh0CgAg\
    AAAAAAABABgA2L9I4E573QEAAAAAAAAAAAAAAAAAAAAAUEsFBgAAAAABAAEAVwAAAE4AAAAAAA==";
const DEFLATE64: &str = "\
    UEsDBBUAAAAJAOBrd12JtaeILAAAAEQCAAAFAAAAYi50eHTlybENACAIBMBVfgCW+sLoJwStnZ6CBegpL3eW+4UC\
    xNczlLmpMIzP8dnKBFBLAQI/AxUAAAAJAOBrd12JtaeILAAAAEQCAAAFACQAAAAAAAAAIICkgQAAAABiLnR4dAoA\
    IAAAAAAAAQAYANi/SOBOe90BAAAAAAAAAAAAAAAAAAAAAFBLBQYAAAAAAQABAFcAAABPAAAAAAA=";
const BZIP2: &str = "\
    UEsDBC4AAAAMAOBrd12JtaeISgAAAEQCAAAFAAAAYi50eHRCWmg5MUFZJlNZll9LlAAAlhGAQAQi5cAQIABwQADA\
    pUhoaaek0TkTBOifE6JkTwnomSclWCbJoTYmxMCYJkn4u5IpwoSEsvpcoFBLAQI/Ay4AAAAMAOBrd12JtaeISgAA\
    AEQCAAAFACQAAAAAAAAAIICkgQAAAABiLnR4dAoAIAAAAAAAAQAYANi/SOBOe90BAAAAAAAAAAAAAAAAAAAAAFBL\
    BQYAAAAAAQABAFcAAABtAAAAAAA=";
const LZMA: &str = "\
    UEsDBD8AAgAOAOBrd12JtaeIMgAAAEQCAAAFAAAAYi50eHQaAgUAXQAQAAAANBlJ7o3pE7cAK7UUJ4BYmu2snguo\
    9glzx6GNXOrJATuE8///vj1AAFBLAQI/Az8AAgAOAOBrd12JtaeIMgAAAEQCAAAFACQAAAAAAAAAIICkgQAAAABi\
    LnR4dAoAIAAAAAAAAQAYANi/SOBOe90BAAAAAAAAAAAAAAAAAAAAAFBLBQYAAAAAAQABAFcAAABVAAAAAAA=";
const FILE_BZ2: &str = "\
    QlpoOTFBWSZTWZZfS5QAAJ+RgEAEIuXAECAAcEDQNAKVIyBp4T0nImCZJ8TJNCdk8E0TkqwTZPRNibEwJgmifi7k\
    inChISy+lyg=";
pub(in crate::formats::archive) const FILE_LZMA: &str = "\
    XQAAgAD//////////wA0GUnujekTtwArtRQngFia7ayeC6j2CXPHoY1c6skBO4Tz//++PUAA";
const FILE_ZST: &str = "\
    KLUv/WREAQ0BAKhoZWxsbyBpbiBhIHppcCwgYWdhaW4DAB6AqgAm0WaYS4B3SrY=";
pub(in crate::formats::archive) const FILE_XZ: &str = "\
    /Td6WFoAAATm1rRGAgAhARYAAAB0L+WjAQAOaGVsbG8gaW4gYSB6aXAKAACsFpKhpmL0EAABJw/fGvxqH7bzfQEA\
    AAAABFla";

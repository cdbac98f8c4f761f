use super::crypt::Key;
use super::value::{Dict, Lexer, Token, Value};
use crate::formats::picture;
use crate::formats::rc4::rc4;
use crate::formats::testing::places;
use crate::object::{DefectKind, PropertyKind, Tree, UrlSource};
use crate::unpack::Password;
use crate::{Limits, NoHost, Root, unpack};

fn read_with(bytes: &[u8], words: &[&str]) -> Tree {
    let root = Root { name: "a.pdf", declared_type: "", bytes };
    let passwords: Vec<Password> = words
        .iter()
        .map(|word| Password { word: (*word).to_owned(), source: "body".to_owned() })
        .collect();
    unpack(&[root], &Limits::default(), &passwords, &mut NoHost)
}

fn read(bytes: &[u8]) -> Tree {
    read_with(bytes, &[])
}

/// A document of these objects, numbered from 1, without a cross-reference table.
fn pdf(objects: &[&[u8]]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    for (index, object) in objects.iter().enumerate() {
        bytes.extend_from_slice(format!("{} 0 obj\n", index + 1).as_bytes());
        bytes.extend_from_slice(object);
        bytes.extend_from_slice(b"\nendobj\n");
    }
    bytes.extend_from_slice(b"trailer << /Root 1 0 R >>\n%%EOF\n");
    bytes
}

fn stream(dict: &str, data: &[u8]) -> Vec<u8> {
    let head = format!("<< {dict} /Length {} >>\nstream\n", data.len());
    [head.as_bytes(), data, b"\nendstream"].concat()
}

fn deflated(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, data).unwrap();
    encoder.finish().unwrap()
}

fn detail(tree: &Tree, kind: PropertyKind) -> Option<&str> {
    tree.objects[0].properties.iter().find(|p| p.kind == kind).map(|p| p.detail.as_str())
}

fn urls(tree: &Tree) -> Vec<(&str, UrlSource)> {
    tree.objects[0].urls.iter().map(|u| (u.url.as_str(), u.source)).collect()
}

#[test]
fn tokens_and_values_are_read_leniently() {
    let mut left = 100;
    let mut value = |text: &[u8]| Lexer::new(text, 0).value(&mut left);
    assert_eq!(value(b"/J#61va#53cript"), Some(Value::Name((*b"JavaScript").into())));
    assert_eq!(value(b"(a\\(b\\051(c)\\n\\\r\nd)"), Some(Value::Text((*b"a(b)(c)\nd").into())));
    assert_eq!(value(b"<41 4 2 5>"), Some(Value::Text((*b"ABP").into())));
    assert_eq!(value(b"12 0 R"), Some(Value::Reference(12)));
    assert_eq!(value(b"--5.5.1"), Some(Value::Number(-5.5)));
    let dict = value(b"<< /A [1 2 0 R (x)] /B % comment\n << /C true >> /A 7 ");
    let Some(Value::Dict(dict)) = dict else { panic!("{dict:?}") };
    assert_eq!(dict.get("A"), Some(&Value::Number(7.0)));
    assert!(dict.is("A", "x") || dict.get("B").and_then(Value::dict).is_some());
    assert_eq!(value(&[b'['; 500]).map(|_| ()), Some(()));
    assert_eq!(Lexer::new(b"  >>", 0).token(), Some(Token::DictClose));
    assert_eq!(Dict::default().get("A"), None);
}

#[test]
fn actions_of_every_kind_are_told() {
    let tree = read(&pdf(&[
        b"<< /Type /Catalog /OpenAction 2 0 R /AA << /WC 3 0 R >> >>",
        b"<< /S /JavaScript /JS (app.alert\\('hello'\\);) >>",
        b"<< /S /Launch /Win << /F (cmd.exe) /P (/c calc) >> >>",
        b"<< /S /URI /URI (https://a.example/x) >>",
        b"<< /S /SubmitForm /F << /FS /URL /F (https://b.example/form) >> >>",
        b"<< /S /GoToR /F (\\\\\\\\10.0.0.1\\\\share) >>",
        b"<< /S /J#61v#61Script /JS 8 0 R >>",
        &stream("/Filter /FlateDecode", &deflated(b"this.exportDataObject({cName:'x'})")),
        b"<< /XFA [(template) 10 0 R] /Fields [1 0 R] >>",
        &stream("", b"<template><script>xfa.host()</script></template>"),
    ]));
    let object = &tree.objects[0];
    assert_eq!(detail(&tree, PropertyKind::OpenAction), Some("OpenAction: JavaScript"));
    assert_eq!(detail(&tree, PropertyKind::LaunchAction), Some("cmd.exe /c calc"));
    assert!(object.has(PropertyKind::JavaScript) && object.has(PropertyKind::XfaForm));
    assert!(object.text.contains("app.alert('hello')"), "{}", object.text);
    assert!(object.text.contains("exportDataObject"));
    let urls = urls(&tree);
    assert!(urls.contains(&("https://a.example/x", UrlSource::Link)));
    assert!(urls.contains(&("https://b.example/form", UrlSource::Form)));
    assert!(urls.contains(&("\\\\10.0.0.1\\share", UrlSource::Action)));
}

#[test]
fn superseded_hidden_and_packed_objects_are_read() {
    let packed = b"11 0 12 32 << /S /URI /URI (c.example/1) >><< /S /URI /URI (d.example/2) >>";
    let mut bytes = pdf(&[
        b"<< /S /URI /URI (https://old.example/) >>",
        &stream("/Type /ObjStm /N 2 /First 11 /Filter [/ASCIIHexDecode /Fl]", &{
            let hex: String = deflated(packed).iter().map(|b| format!("{b:02x}")).collect();
            hex.into_bytes()
        }),
        &stream("", b"junk 9 0 obj << /S /URI /URI (https://hidden.example/) >> endobj junk"),
    ]);
    bytes.extend_from_slice(b"1 0 obj << /S /URI /URI (https://new.example/) >> endobj");
    let tree = read(&bytes);
    let urls: Vec<&str> = urls(&tree).iter().map(|(url, _)| *url).collect();
    for url in ["old.example", "new.example", "hidden.example", "c.example/1", "d.example/2"] {
        assert!(urls.iter().any(|u| u.contains(url)), "{url} of {urls:?}");
    }
}

#[test]
fn embedded_files_are_children_with_their_names() {
    let file = deflated(b"MZ program");
    let bytes = pdf(&[
        b"<< /Type /Filespec /F (a.exe) /UF <FEFF0062002E006500780065> /EF << /F 2 0 R >> >>",
        &stream("/Type /EmbeddedFile /Subtype /text#2Fplain /Filter /FlateDecode", &file),
        &stream("/Type /EmbeddedFile", b"MZ another"),
    ]);
    let tree = read(&bytes);
    let names: Vec<&str> = tree.objects.iter().map(|o| o.path.as_str()).collect();
    assert_eq!(names, ["a.pdf", "a.pdf/b.exe", "a.pdf/unnamed"]);
    assert_eq!(tree.objects[1].kind, gauntlet_sniff::FileKind::WindowsProgram);
    assert_eq!(tree.objects[1].declared_type, "text/plain");
    assert!(tree.objects[0].has(PropertyKind::EmbeddedFile));
}

#[test]
fn text_of_pages_by_fonts_and_maps() {
    let map = b"1 begincodespacerange <0000> <ffff> endcodespacerange \
        2 beginbfchar <0001> <0048> <0002> <0069> endbfchar \
        1 beginbfrange <0003> <0005> <0041> endbfrange";
    let content = b"BT /F1 12 Tf 72 700 Td (Pay ) Tj [(no) -20 (w) -300 (please)] TJ T* \
        (caf\\351 \\200) Tj 0 -14 Td /F2 9 Tf <00010002000300040005> Tj ET /X1 Do";
    let tree = read(&pdf(&[
        b"<< /Type /Page /Parent 2 0 R /Contents [3 0 R] >>",
        b"<< /Type /Pages /Resources << /Font << /F1 4 0 R /F2 5 0 R >> /XObject << /X1 7 0 R >> \
          >> >>",
        &stream("/Filter /FlateDecode", &deflated(content)),
        b"<< /Type /Font /Subtype /Type1 /Encoding << /Differences [200 /Euro /eacute] >> >>",
        b"<< /Type /Font /Subtype /Type0 /ToUnicode 6 0 R >>",
        &stream("", map),
        &stream("/Subtype /Form", b"BT (in a form) ' ET"),
    ]));
    let text = &tree.objects[0].text;
    assert!(text.contains("Pay now please\ncafé €\nHiABC"), "{text:?}");
    assert!(text.contains("in a form"));
    assert_eq!(detail(&tree, PropertyKind::Pages), Some("1"));
}

#[test]
fn codes_on_pages_as_pictures_and_as_rectangles() {
    let gray = picture::tests::code("https://qr.example/1", 4, 4);
    let size = format!("/Width {0} /Height {0} /BitsPerComponent 8", gray.width);
    let flate = format!("/Subtype /Image {size} /ColorSpace /DeviceGray /Filter /FlateDecode");
    let tree = read(&pdf(&[&stream(&flate, &deflated(&gray.pixels))]));
    assert_eq!(urls(&tree), [("https://qr.example/1", UrlSource::QrCode)]);

    let code = picture::tests::code("https://qr.example/2", 1, 0);
    let mut content = String::from("q 3 0 0 -3 100 500 cm 0 g\n");
    for y in 0..code.height {
        for x in 0..code.width {
            if code.pixels[y * code.width + x] == 0 {
                content.push_str(&format!("{x} {y} 1 1 re f\n"));
            }
        }
    }
    let tree = read(&pdf(&[b"<< /Type /Page /Contents 2 0 R >>", &stream("", content.as_bytes())]));
    assert_eq!(urls(&tree), [("https://qr.example/2", UrlSource::QrCode)]);
}

/// An encrypted document of revision 3 (RC4, 128 bits), made by the algorithms of the standard.
fn encrypted(user: &str) -> Vec<u8> {
    use md5::{Digest, Md5};
    let pad: Vec<u8> = user.bytes().chain(PADDING).take(32).collect();
    let owner = [0x5a_u8; 32];
    let mut hash = Md5::new();
    hash.update(&pad);
    hash.update(owner);
    hash.update((-4_i32).to_le_bytes());
    hash.update(b"identity");
    let mut key = hash.finalize().to_vec();
    for _ in 0..50 {
        key = Md5::digest(&key).to_vec();
    }
    let mut hash = Md5::new();
    hash.update(PADDING);
    hash.update(b"identity");
    let mut sum = hash.finalize().to_vec();
    for round in 0..20 {
        sum = rc4(&key.iter().map(|b| b ^ round).collect::<Vec<_>>(), &sum);
    }
    sum.resize(32, 0);
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let key = Key::for_tests(key);
    let url = hex(&key.string(1, 0, b"https://secret.example/"));
    let script = key.stream(3, 0, b"app.secret()");
    let dict = format!(
        "<< /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <{}> /U <{}> >>",
        hex(&owner),
        hex(&sum)
    );
    let mut bytes = pdf(&[
        format!("<< /S /URI /URI <{url}> >>").as_bytes(),
        b"<< /S /JavaScript /JS 3 0 R >>",
        &stream("", &script),
        dict.as_bytes(),
    ]);
    bytes.extend_from_slice(b"trailer << /Encrypt 4 0 R /ID [(identity) (x)] >>");
    bytes
}

const PADDING: [u8; 32] = *b"\x28\xbf\x4e\x5e\x4e\x75\x8a\x41\x64\x00\x4e\x56\xff\xfa\x01\x08\
    \x2e\x2e\x00\xb6\xd0\x68\x3e\x80\x2f\x0c\xa9\xfe\x64\x53\x69\x7a";

#[test]
fn encrypted_documents_open_with_a_password_or_are_a_defect() {
    for (user, words) in [("", &[][..]), ("letmein", &["wrong", "letmein"])] {
        let tree = read_with(&encrypted(user), words);
        assert_eq!(urls(&tree), [("https://secret.example/", UrlSource::Link)]);
        assert!(tree.objects[0].text.contains("app.secret()"));
        assert_eq!(tree.objects[0].has(PropertyKind::PasswordFound), !user.is_empty());
        assert!(tree.unread().next().is_none());
    }
    let tree = read_with(&encrypted("letmein"), &["wrong"]);
    assert_eq!(tree.objects[0].defects[0].kind, DefectKind::Encrypted);
    assert!(tree.objects[0].has(PropertyKind::Encrypted));
    assert!(tree.objects[0].has(PropertyKind::JavaScript), "keys are not encrypted");
    assert!(urls(&tree).is_empty() && tree.objects[0].text.is_empty());
}

#[test]
fn damaged_documents_are_bounded() {
    let whole = pdf(&[
        b"<< /Type /Page /Contents 2 0 R /AA << /O << /S /JavaScript /JS (a) >> >> >>",
        &stream("/Filter [/LZWDecode /RL /A85]", b"\x80\x0b\x60\x50\x22\x0c\x0c\x85\x01"),
        b"<< /EF << /F 2 0 R >> /Parent 3 0 R /Length 4 0 R >>",
        b"4 0 R",
    ]);
    for end in places(whole.len()) {
        read(&whole[..end]);
    }
    for at in places(whole.len()) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0xff;
        read(&flipped);
    }
    // A palette of itself, a form that draws itself, pages above each other in a ring.
    read(&pdf(&[
        &stream("/Subtype /Image /W 30 /H 30 /BPC 8 /CS 2 0 R", &[0; 900]),
        b"[/I 2 0 R 255 (x)]",
        &stream("/Subtype /Form /Resources << /XObject << /A 3 0 R >> >>", b"/A Do /A Do"),
        b"<< /Type /Page /Parent 4 0 R /Contents 3 0 R >>",
    ]));
    for unit in [&b"1 0 obj ("[..], b"1 0 obj [", b"1 0 obj << /A ", b"1 0 obj stream\n", b"<<[(/"]
    {
        let bytes = [b"%PDF-1.4\n", unit.repeat(20_000).as_slice()].concat();
        read(&bytes);
    }
}

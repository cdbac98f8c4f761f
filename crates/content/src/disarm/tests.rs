//! Documents as attackers send them, disarmed.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::*;
use crate::formats::testing::{file, zip};

fn limits() -> Limits {
    // Time is not what these tests are about, and this machine may be busy.
    Limits {
        cpu_time_max: Duration::from_secs(600),
        time_max: Duration::from_secs(600),
        ..Limits::default()
    }
}

fn unnamed(bytes: &[u8]) -> Root<'_> {
    Root { name: "", declared_type: "", bytes }
}

fn disarmed(bytes: &[u8], is_page: bool) -> Disarmed {
    disarm(&unnamed(bytes), is_page, &limits())
}

fn changed(bytes: &[u8]) -> Harmless {
    match disarmed(bytes, false) {
        Disarmed::Changed(harmless) => harmless,
        other => panic!("{other:?}"),
    }
}

const TYPES: &str = "<Types><Default Extension=\"bin\" ContentType=\"application/vnd.ms-office.vbaProject\"/>\
    <Override PartName=\"/word/document.xml\" ContentType=\"application/vnd.ms-word.document.macroEnabled.main+xml\"/>\
    <Override PartName=\"/word/vbaData.xml\" ContentType=\"application/vnd.ms-word.vbaData+xml\"/></Types>";
const RELATIONS: &str = "<Relationships><Relationship Id=\"r1\" Type=\"http://x/vbaProject\" Target=\"vbaProject.bin\"/>\
    <Relationship Id=\"r2\" Type=\"http://x/attachedTemplate\" Target=\"http://a.example/t.dotm\" TargetMode=\"External\"/>\
    <Relationship Id=\"r3\" Type=\"http://x/hyperlink\" Target=\"http://b.example/\" TargetMode=\"External\"/>\
    <Relationship Id=\"r4\" Type=\"http://x/oleObject\" Target=\"embeddings/oleObject1.bin\"/></Relationships>";
const DOCUMENT: &str = "<w:document><w:p><w:r><w:t>Dear all</w:t></w:r></w:p>\
    <w:r><w:instrText> DD</w:instrText></w:r><w:r><w:instrText>EAUTO c:\\\\cmd.exe \"/k\"</w:instrText></w:r>\
    <w:fldChar><w:fldData>RERFQVVUTyBjbWQ=</w:fldData></w:fldChar><w:fldData>RGVhciBBbm4=</w:fldData>\
    <w:object><o:OLEObject r:id=\"r4\"/></w:object><w:control r:id=\"r5\"/></w:document>";

#[test]
fn a_document_loses_macros_templates_dde_and_objects_and_keeps_its_text() {
    let docm = zip(&[
        file("[Content_Types].xml", TYPES.as_bytes()),
        file("word/_rels/document.xml.rels", RELATIONS.as_bytes()),
        file("word/document.xml", DOCUMENT.as_bytes()),
        file("word/vbaProject.bin", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 macros"),
        file("word/vbaData.xml", b"<x/>"),
        file("word/embeddings/oleObject1.bin", b"MZ"),
        file("word/media/a.txt", b"stays as it is"),
    ]);
    let harmless = changed(&docm);
    assert_eq!(harmless.becomes, Some(Plain::Document));
    for what in
        ["vba_macros", "external_template", "dde", "embedded_object", "active_x", "field_data"]
    {
        assert!(harmless.removed.iter().any(|r| r == what), "{what}: {:?}", harmless.removed);
    }
    let tree = tree_of(&unnamed(&harmless.bytes), &limits());
    let names: Vec<&str> = tree.objects.iter().map(|o| o.name.as_str()).collect();
    assert!(!names.iter().any(|n| n.contains("vba") || n.contains("embeddings")), "{names:?}");
    let text: String = tree.objects.iter().map(|o| o.text.as_str()).collect();
    assert!(text.contains("Dear all") && !text.contains("cmd.exe"), "{text}");
    let again = disarmed(&harmless.bytes, false);
    assert_eq!(again, Disarmed::Clean, "disarming twice changes nothing more");
}

fn pdf(catalog: &str, more: &[u8]) -> Vec<u8> {
    let mut out = format!(
        "%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R {catalog} >>\nendobj\n\
         2 0 obj\n<< /Type /Pages /Kids [] /Count 0 >>\nendobj\n"
    )
    .into_bytes();
    out.extend_from_slice(more);
    out.extend_from_slice(b"trailer\n<< /Root 1 0 R >>\n%%EOF\n");
    out
}

#[test]
fn a_pdf_keeps_its_length_and_loses_what_runs() {
    let actions = "/OpenAction << /S /J#61vaScript /JS (app.alert\\(1\\)) >> /AA << /O 5 0 R >>";
    let launch = b"5 0 obj\n<< /S /Launch /F (cmd.exe) >>\nendobj\n";
    let armed = pdf(actions, launch);
    let harmless = changed(&armed);
    assert_eq!(harmless.bytes.len(), armed.len());
    assert_eq!(harmless.removed, ["java_script", "launch_action", "open_action"]);
    assert_eq!(harmless.becomes, None);
    let plain = pdf("/Lang (en)", b"");
    assert_eq!(disarmed(&plain, false), Disarmed::Clean);
    let sealed = pdf("/Encrypt 9 0 R", b"");
    assert!(matches!(disarmed(&sealed, false), Disarmed::Refused(_)));
}

#[test]
fn objects_in_compressed_streams_are_renamed_too() {
    let objects = "7 0 8 60 << /S /JavaScript /JS (app.alert\\(1\\)) /Next 8 0 R          >> \
                   << /S /Launch /F (cmd.exe) >>";
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(objects.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let head = format!(
        "6 0 obj\n<< /Type /ObjStm /N 2 /First 9 /Filter /FlateDecode /Length {} >>\nstream\n",
        packed.len()
    );
    let stream = [head.as_bytes(), &packed, b"\nendstream\nendobj\n"].concat();
    let armed = pdf("/OpenAction 7 0 R", &stream);
    match disarmed(&armed, false) {
        Disarmed::Changed(harmless) => {
            assert_eq!(harmless.bytes.len(), armed.len());
            assert!(harmless.removed.iter().any(|r| r == "java_script"), "{:?}", harmless.removed);
        }
        // Deflate may need a byte more: then it is stripped, never passed.
        other => assert!(matches!(&other, Disarmed::Refused(w) if w.contains("fit")), "{other:?}"),
    }
}

#[test]
fn a_page_loses_what_runs_and_keeps_its_text() {
    let page = "<html><body onload=\"go()\"><p>K\u{f6}ln</p><scr<script></script>ipt>x()</script>\
        <a href=\"java&#115;cript:x()\">one</a><a href=\"https://a.example/\">two</a>\
        <form action=\"https://b.example/\"><input type=password name=p>text</form>\
        <iframe src=\"data:text/html,x\"></iframe><meta http-equiv=refresh content=\"0;url=x\">\
        <img src=\"data:image/png;base64,AA==\"><svg/onload=x()></body></html>";
    let harmless = changed(page.as_bytes());
    let text = String::from_utf8(harmless.bytes).unwrap();
    let low = text.to_lowercase();
    for word in ["onload", "script", "<form", "<input", "<iframe", "refresh", "javascript"] {
        assert!(!low.contains(word), "{word}: {text}");
    }
    for word in ["K\u{f6}ln", "https://a.example/", "data:image/png", "text"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let plain = b"<html><body><p>Hello <b>you</b></p><!-- a --></body></html>";
    assert_eq!(disarmed(plain, true), Disarmed::Clean);
}

#[test]
fn a_rich_text_loses_its_objects_and_keeps_its_text() {
    let text = b"{\\rtf1 Dear all{\\object\\objemb{\\*\\objclass Package}{\\*\\objdata 0105}}\
        {\\*\\template http://a.example/t.dotm}{\\field{\\*\\fldinst DDEAUTO c:\\\\cmd}{\\fldrslt x}} bye}";
    let harmless = changed(text);
    let out = String::from_utf8(harmless.bytes).unwrap();
    assert_eq!(out, "{\\rtf1 Dear all{\\field{\\fldrslt x}} bye}");
}

#[test]
fn what_has_no_disarmer_is_refused_if_it_is_active_and_clean_if_not() {
    assert_eq!(disarmed(b"just text", false), Disarmed::Clean);
    assert!(matches!(disarmed(b"MZ\x90\0", false), Disarmed::Refused(_)));
    let inner = zip(&[file("run.exe", b"MZ\x90\0\x03\0\0\0")]);
    assert!(matches!(disarmed(&inner, false), Disarmed::Refused(_)));
}

#[test]
fn what_only_its_name_makes_active_is_not_passed() {
    let named = |name, text: &str| {
        disarm(&Root { name, declared_type: "", bytes: text.as_bytes() }, false, &limits())
    };
    let script = "var s = new ActiveXObject('WScript.Shell'); s.Run('cmd.exe /c calc');";
    assert!(matches!(named("a.js", script), Disarmed::Refused(_)));
    let shortcut = "[InternetShortcut]\r\nURL=file://198.51.100.7/a.exe\r\n";
    assert!(matches!(named("a.url", shortcut), Disarmed::Refused(_)));
    let page = "Dear <b onclick='a()'>Ann</b>";
    assert!(matches!(named("a.html", page), Disarmed::Changed(_)));
    assert_eq!(named("a.txt", "Dear Ann"), Disarmed::Clean);
}

/// Real documents of oletools' tests: whatever becomes of one, nothing active is passed.
#[test]
fn documents_of_a_corpus_have_nothing_active_when_they_are_disarmed() {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS") else { return };
    let mut folders = vec![std::path::Path::new(&corpus).join("fixtures/oletools/tests/test-data")];
    let mut counts = [0; 3];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let file = Root { name: &name, declared_type: "", bytes: &bytes };
            let (before, limits) = (tree_of(&file, &limits()), limits());
            let what = match disarm(&file, false, &limits) {
                Disarmed::Clean => {
                    assert_eq!(active(&before, false), None, "{name} was passed");
                    0
                }
                Disarmed::Changed(harmless) => {
                    let after = Root { bytes: &harmless.bytes, ..file };
                    assert_eq!(active(&tree_of(&after, &limits), false), None, "{name}");
                    assert_eq!(disarm(&after, false, &limits), Disarmed::Clean, "{name} twice");
                    1
                }
                Disarmed::Refused(why) => {
                    assert!(!name.ends_with(".csv") && !name.ends_with(".xml"), "{name}: {why}");
                    2
                }
            };
            counts[what] += 1;
        }
    }
    assert!(counts[1] > 0 || counts == [0; 3], "clean, changed, refused: {counts:?}");
}

#[test]
fn nasty_files_never_panic() {
    let docm = zip(&[
        file("[Content_Types].xml", TYPES.as_bytes()),
        file("word/_rels/document.xml.rels", RELATIONS.as_bytes()),
        file("word/document.xml", DOCUMENT.as_bytes()),
    ]);
    let page = b"<a <b href='<script>' x=\"></a><!-- <form a= onx='y'>".to_vec();
    let armed = pdf("/OpenAction << /S /JavaScript /JS (x) >>", b"");
    let rtf = b"{\\rtf1{\\object{\\objdata{{{}}\\bin4 xxxx\\u-1?\\'e4}".to_vec();
    for whole in [docm, page, armed, rtf] {
        let step = (whole.len() / 60).max(1);
        for at in (0..whole.len()).step_by(step) {
            disarmed(&whole[..at], true);
            disarmed(&whole[..at], false);
            let mut broken = whole.clone();
            broken[at] ^= 0x80;
            disarmed(&broken, false);
            disarmed(&broken, true);
        }
    }
}

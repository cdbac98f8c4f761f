//! Documents in one file, disarmed.

use base64_simd::STANDARD;

use crate::disarm::{Disarmed, disarm};
use crate::formats::testing::{compound, places};
use crate::{Limits, Root};

const WORD: &str = "<w:wordDocument \
    xmlns:w='http://schemas.microsoft.com/office/word/2003/wordml'>";

fn outcome(name: &str, bytes: &[u8]) -> Disarmed {
    disarm(&Root { name, declared_type: "", bytes }, false, &Limits::default())
}

/// What was taken out, and what is left, which is clean.
fn changed(name: &str, bytes: &[u8]) -> (Vec<String>, Vec<u8>) {
    match outcome(name, bytes) {
        Disarmed::Changed(harmless) => {
            assert_eq!(harmless.becomes, None);
            assert_eq!(outcome(name, &harmless.bytes), Disarmed::Clean, "twice changes no more");
            (harmless.removed, harmless.bytes)
        }
        other => panic!("{name}: {other:?}"),
    }
}

fn digits(bytes: &[u8]) -> String {
    STANDARD.encode_to_string(bytes)
}

/// Documents with all that is taken out of them: name, text, words for it, what must stay.
fn armed() -> Vec<(&'static str, String, Vec<&'static str>, Vec<&'static str>)> {
    let (ole, picture) = (digits(&compound(&[("x", b"y")])), digits(b"\x89PNG\r\n\x1a\npicture"));
    let project = digits(b"ActiveMime\0\0\x01\xf0x\x9c");
    let word = format!(
        "<?xml version='1.0' encoding='UTF-8'?>{WORD}<w:docSuppData><w:binData \
         w:name='editdata.mso'>{project}</w:binData></w:docSuppData><w:docOleData><w:binData \
         w:name='oledata.mso'>{ole}</w:binData></w:docOleData><w:p><w:pict><w:binData \
         w:name='wordml://1.png'>{picture}</w:binData><v:imagedata src='http://a.example/i.png'/>\
         </w:pict><w:fldChar w:fldCharType='begin'><w:fldData>{ole}</w:fldData></w:fldChar>\
         <w:instrText>DD</w:instrText><w:instrText><![CDATA[EAUTO cmd]]></w:instrText>\
         <w:fldChar w:fldCharType='separate'/><w:t>K\u{f6}ln</w:t><w:fldChar \
         w:fldCharType='end'/><w:ocx w:data='DATA:application/x-oleobject;BASE64,{ole}'/>\
         <w:object><w:binData w:name='a'>{ole}</w:binData></w:object>\
         <w:fldSimple w:instr='dde calc'><w:t>five</w:t></w:fldSimple></w:p>\
         <w:attachedTemplate w:val='http://b.example/t.dot'/></w:wordDocument>"
    );
    let package = format!(
        "<pkg:package xmlns:pkg='http://schemas.microsoft.com/office/2006/xmlPackage'>\
         <pkg:part pkg:name='/word/_rels/document.xml.rels'><pkg:xmlData><Relationships>\
         <Relationship Id='a' Type='http://x/attachedTemplate' Target='http://a.example/t.dotm' \
         TargetMode='External'/><Relationship Id='b' Type='http://x/hyperlink' \
         Target='http://b.example/' TargetMode='External'/><Relationship Id='c' \
         Type='http://x/vbaProject' Target='vbaProject.bin'/></Relationships></pkg:xmlData>\
         </pkg:part><pkg:part pkg:name='/word/vbaProject.bin'><pkg:binaryData>{ole}\
         </pkg:binaryData></pkg:part><pkg:part pkg:name='/word/document.xml' pkg:contentType=\
         'application/vnd.ms-word.document.macroEnabled.main+xml'><pkg:xmlData><w:document>\
         <w:fldSimple w:instr=' DDEAUTO cmd '><w:t>Dear Bob</w:t></w:fldSimple></w:document>\
         </pkg:xmlData></pkg:part></pkg:package>"
    );
    let excel = "<?xml version='1.0'?><Workbook xmlns='urn:schemas-microsoft-com:office:\
         spreadsheet'><SupBook><Path>cmd|/c calc</Path></SupBook><Names><NamedRange ss:Name='a' \
         ss:RefersTo=\"=cmd|'/c calc'!A1\"/></Names><Table><Row><Cell \
         ss:Formula=\"=cmd|'/c calc'!A1\"><Data>five</Data></Cell><Cell ss:Formula='=RC[-1]'/>\
         </Row></Table></Workbook>";
    let open = "<office:document xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0'>\
         <office:scripts><office:script><ooo:libraries><ooo:module><ooo:source-code>Sub AutoOpen\n\
         Shell(\"cmd\")\nEnd Sub</ooo:source-code></ooo:module></ooo:libraries></office:script>\
         <office:event-listeners><script:event-listener script:event-name='dom:load' \
         xlink:href='vnd.sun.star.script:a.b?language=Basic'/></office:event-listeners>\
         </office:scripts><table:table-cell office:value='5' \
         table:formula='of:=DDE(&quot;cmd&quot;;&quot;/c&quot;;&quot;a&quot;)'><text:p>five\
         </text:p></table:table-cell><office:dde-source office:dde-application='cmd' \
         office:dde-topic='/c calc'/><text:a xlink:href='http://a.example/'>link</text:a>\
         <text:a xlink:href='vnd.sun.star.script:a'>run</text:a></office:document>";
    vec![
        (
            "a.doc",
            word,
            vec!["vba_macros", "embedded_object", "active_x", "dde", "field_data"],
            vec!["K\u{f6}ln", "five", "wordml://1.png"],
        ),
        (
            "a.xml",
            package,
            vec!["vba_macros", "external_template", "dde"],
            vec!["Dear Bob", "http://b.example/", "wordprocessingml.document.main+xml"],
        ),
        ("a.xls", excel.to_owned(), vec!["dde"], vec!["five", "=RC[-1]"]),
        (
            "a.fods",
            open.to_owned(),
            vec!["script", "dde"],
            vec!["five", "http://a.example/", "run"],
        ),
    ]
}

#[test]
fn what_is_active_goes_and_the_rest_stays_in_every_encoding() {
    for (name, text, words, stays) in armed() {
        let (removed, left) = changed(name, text.as_bytes());
        for word in words {
            assert!(removed.iter().any(|r| r == word), "{name} {word}: {removed:?}");
        }
        let left = String::from_utf8(left).unwrap();
        for word in stays {
            assert!(left.contains(word), "{name} {word}: {left}");
        }
        assert!(!left.contains("cmd") && !left.contains("calc"), "{name}: {left}");
        let wide = |text: &str| -> Vec<u8> {
            let mark = [0xff, 0xfe].into_iter();
            mark.chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
        };
        assert_eq!(changed(name, &wide(&text)).1, wide(&left), "{name} in UTF-16");
        let bytes = |text: &str| -> Vec<u8> {
            let text = text.replace("'UTF-8'", "'windows-1252'");
            text.chars().map(|c| u8::try_from(c).unwrap()).collect()
        };
        assert_eq!(changed(name, &bytes(&text)).1, bytes(&left), "{name} in bytes");
    }
}

#[test]
fn ordinary_documents_are_clean() {
    let form = digits(b"\xff\xff\xff\xff\0\0\x20\0\0\0\0\0\0\0");
    let picture = digits(b"\x89PNG\r\n\x1a\npicture");
    let word = format!(
        "{WORD}<w:fldChar w:fldCharType='begin'><w:fldData>{form}</w:fldData></w:fldChar>\
         <w:instrText>FORMTEXT</w:instrText><w:fldChar w:fldCharType='end'/><w:pict><w:binData \
         w:name='wordml://1.png'>{picture}</w:binData><v:imagedata src='wordml://1.png'/></w:pict>\
         <w:attachedTemplate w:val='C:\\Normal.dot'/></w:wordDocument>"
    );
    let open = "<office:document xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0'>\
        <office:scripts><office:script script:language='ooo:Basic'><ooo:libraries/>\
        </office:script></office:scripts><text:p>Dear Ann</text:p></office:document>";
    assert_eq!(outcome("a.xml", word.as_bytes()), Disarmed::Clean);
    assert_eq!(outcome("a.fodt", open.as_bytes()), Disarmed::Clean);
}

#[test]
fn what_may_be_read_otherwise_is_refused() {
    let field = "<w:fldSimple w:instr='DDE a b'/>";
    for text in [
        format!("{WORD}{field}"),
        format!("{WORD}{field}</w:wordDocument><"),
        format!("<!DOCTYPE a>{WORD}{field}</w:wordDocument>"),
        format!("<?xml version='1.0' encoding='utf-7'?>{WORD}{field}</w:wordDocument>"),
        format!("{WORD}<w:object>{field}</w:wordDocument>"),
    ] {
        let outcome = outcome("a.xml", text.as_bytes());
        assert!(matches!(outcome, Disarmed::Refused(_)), "{text}: {outcome:?}");
    }
    // A program opens such a page by its name, and the document by its bytes.
    let page = format!("{WORD}{field}</w:wordDocument>");
    assert!(matches!(outcome("a.html", page.as_bytes()), Disarmed::Refused(_)));
}

#[test]
fn nasty_documents_never_panic() {
    for (name, text, ..) in armed() {
        let whole = text.into_bytes();
        for at in places(whole.len()) {
            outcome(name, &whole[..at]);
            let mut broken = whole.clone();
            broken[at] ^= 0x80;
            let disarmed = outcome(name, &broken);
            if let Disarmed::Changed(harmless) = disarmed {
                let again = outcome(name, &harmless.bytes);
                assert!(!matches!(again, Disarmed::Refused(_)), "{name} at {at}: {again:?}");
            }
        }
    }
}

//! Unpacking costs time in proportion to the length of a file, whatever stands in it: one four
//! times as long takes about four times as long, not sixteen times.
//!
//! CPU time of the thread is measured, so that other processes do not count; what is too steep is
//! measured again before it counts, since they share caches.

use std::time::Duration;

use gauntlet_content::{Limits, NoHost, Root, unpack};

/// Bytes of the shorter file.
const SHORT_BYTES: usize = 24 * 1024;
const TIMES: usize = 4;
/// Sixteen times would be a square.
const RATIO_MAX: f64 = 9.0;
/// Of the longer file; what is set up for each file weighs little beside it.
const NOISE: Duration = Duration::from_millis(2);
/// One file may take no longer, so that a decoder without bounds ends the test.
const CPU_MAX: Duration = Duration::from_secs(4);

/// Name of the file, what it begins with, and what repeats.
type Shape = (&'static str, &'static [u8], &'static [u8]);

/// The beginning of a document of Word in one file of XML.
const FLAT: &[u8] =
    b"<w:wordDocument xmlns:w='http://schemas.microsoft.com/office/word/2003/wordml'>";

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    // Pages, scripts, calendars.
    ("a.html", b"<html>", b"<"), ("a.html", b"<html>", b"<a "), ("a.html", b"<html>", b"<a href='"),
    ("a.html", b"<html>", b"<form action='x'><input type=password>"), ("a.html", b"<html>", b"<!--"),
    ("a.html", b"<html>", b"<script>"), ("a.html", b"<html>", b"</script>"),
    ("a.html", b"<html>", b"<script>var a='b'+'c';</script>"), ("a.html", b"<html>", b"<meta http-equiv=refresh content='0;url="),
    ("a.html", b"<html><script>", b"a+"), ("a.html", b"<html><script>", b"("), ("a.html", b"<html><script>", b"["),
    ("a.html", b"<html><script>", b"{"), ("a.html", b"<html><script>", b"'a'+"), ("a.html", b"<html><script>", b"atob('YQ=='"),
    ("a.html", b"<html><script>", b"atob("), ("a.html", b"<html><script>", b"unescape('%61')+"), ("a.html", b"<html><script>", b"a=a+'b';"),
    ("a.html", b"<html><script>", b"/*"), ("a.html", b"<html><script>", b"`${"), ("a.html", b"<html><script>", b"\\x61"),
    ("a.html", b"<html><script>", b"String.fromCharCode(97,"), ("a.html", b"<html><script>", b"eval("), ("a.html", b"<html><script>", b"a.b("),
    ("a.html", b"<html><script>x=new Blob(['", b"QUJD"), ("a.html", b"<html><script>", b"document.write("),
    ("a.html", b"<html>", b"&#x41;"), ("a.html", b"<html>", b"<a href='data:text/html;base64,QUJD'>"), ("a.html", b"<html>", b"<iframe srcdoc=\""),
    ("a.svg", b"<svg>", b"<g>"), ("a.svg", b"<svg>", b"<a xlink:href='"), ("a.js", b"", b"a=\"b\"+\"c\";"), ("a.js", b"", b"function a(){"),
    ("a.js", b"", b"['a','b'][0]+"), ("a.js", b"", b".replace('a','b')"), ("a.js", b"var a='x'", b".split('').reverse().join('')"),
    ("a.vbs", b"", b"Chr(65) & "), ("a.vbs", b"", b"a = a & \"b\"\r\n"), ("a.vbs", b"", b"StrReverse("), ("a.vbs", b"", b"Replace(\"a\",\"b\","),
    ("a.vbs", b"", b"Execute("), ("a.ps1", b"", b"'a'+'b';"), ("a.ps1", b"", b"-enc QUJD "), ("a.bat", b"", b"set a=b%a%\r\n"),
    ("a.bat", b"", b"%a:~0,1%"), ("a.ics", b"BEGIN:VCALENDAR\r\n", b"ATTACH;VALUE=BINARY:QUJD\r\n"), ("a.ics", b"BEGIN:VCALENDAR\r\n", b" x"),
    ("a.vcf", b"BEGIN:VCARD\r\n", b"PHOTO;ENCODING=b:QUJD\r\n"), ("a.url", b"[InternetShortcut]\r\n", b"URL=http://a.b/\r\n"),
    ("a.iqy", b"WEB\n1\n", b"http://a.b/\n"), ("a.oqy", b"QueryType=OLEDB\n", b"a=http://a.b/;"), ("a.search-ms", b"<persistedQuery>", b"<include path='\\\\a\\b'/>"),
    ("a.txt", b"", b"AAAA"), ("a.txt", b"", b"QUJD\r\n"), ("a.txt", b"", b"begin 644 a\n"), ("a.txt", b"", b"begin 644 a\n#0V%T\n"),
    ("a.txt", b"", b"=ybegin line=1 size=1 name=a\n"), ("a.txt", b"", b"=ybegin line=1 size=1 name=a\nx\n=yend\n"), ("a.txt", b"begin 644 a\n", b"#0V%T\n"),
    ("a.hqx", b"(This file must be converted with BinHex 4.0)\n:", b"!!!!"), ("a.mbox", b"From a@b Thu Jan  1 00:00:00 1970\nFrom: a\nTo: b\n\n", b"\nFrom a@b Thu Jan  1 00:00:00 1970\nFrom: a\n\n"),
    ("a.slk", b"ID;P\r\n", b"C;X1;Y1;K\"a\";E=CALL(\r\n"), ("a.slk", b"ID;P\r\n", b"NN;NAuto_open;ER1C1\r\n"),
    ("a.csv", b"", b"=a|'b,"), ("a.csv", b"", b"x|''"), ("a.csv", b"=", b"ADDE("), ("a.csv", b"", b"\"\"=a|b!"), ("a.csv", b"", b"\"=a|''\"\""),
    // Documents.
    ("a.xml", FLAT, b"<w:fldChar w:fldCharType='begin'/>"), ("a.xml", FLAT, b"<w:instrText>DDE a</w:instrText>"), ("a.xml", FLAT, b"<w:fldSimple w:instr='DDE a'/>"),
    ("a.xml", FLAT, b"<w:binData w:name='a'>QUJD</w:binData>"), ("a.xml", FLAT, b"<w:ocx w:data='QUJD'/>"), ("a.fodt", b"<office:document xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0'>", b"<ooo:source-code>Sub a()</ooo:source-code>"), ("a.xml", FLAT, b"<w:fldData>QUJDAA==</w:fldData>"), ("a.xml", FLAT, b"<w:fldData>"), ("a.xml", FLAT, b"<a b='"), ("a.xml", FLAT, b"<![CDATA["), ("a.xml", FLAT, b"<!--"), ("a.xml", FLAT, b"<a b=c "), ("a.xml", b"", b"<?a?><!--b-->"),
    ("a.mso", b"ActiveMime", b"x\x9c"),
    ("a.rtf", b"{\\rtf1", b"{"), ("a.rtf", b"{\\rtf1", b"}"), ("a.rtf", b"{\\rtf1", b"\\a"), ("a.rtf", b"{\\rtf1", b"{\\object\\objdata 0105"),
    ("a.rtf", b"{\\rtf1{\\object\\objdata ", b"d0cf"), ("a.rtf", b"{\\rtf1", b"{\\*\\a"), ("a.rtf", b"{\\rtf1", b"{\\field{\\*\\fldinst HYPERLINK \"http://a.b\"}}"),
    ("a.rtf", b"{\\rtf1", b"\\bin9 "), ("a.rtf", b"{\\rtf1", b"\\'41"), ("a.rtf", b"{\\rtf1", b"\\u65?"),
    ("a.pdf", b"%PDF-1.4\n", b"1 0 obj\n"), ("a.pdf", b"%PDF-1.4\n", b"1 0 obj<<>>endobj\n"), ("a.pdf", b"%PDF-1.4\n", b"<<"), ("a.pdf", b"%PDF-1.4\n1 0 obj", b"["),
    ("a.pdf", b"%PDF-1.4\n1 0 obj", b"("), ("a.pdf", b"%PDF-1.4\n", b"startxref\n0\n"), ("a.pdf", b"%PDF-1.4\n", b"xref\n0 1\n0000000000 65535 f \n"),
    ("a.pdf", b"%PDF-1.4\n", b"1 0 obj<</Length 9>>stream\n"), ("a.pdf", b"%PDF-1.4\n", b"1 0 obj<</Length 9>>stream\nendstream endobj\n"),
    ("a.pdf", b"%PDF-1.4\n", b"trailer<</Root 1 0 R/Prev 9>>\n"), ("a.pdf", b"%PDF-1.4\n1 0 obj<<", b"/A 1 0 R"), ("a.pdf", b"%PDF-1.4\n1 0 obj<<", b"/A<<"),
    ("a.pdf", b"%PDF-1.4\n", b"1 0 obj<</S/JavaScript/JS 2 0 R>>endobj 2 0 obj(a)endobj\n"), ("a.pdf", b"%PDF-1.4\n1 0 obj<</S/JavaScript/JS(", b"a+'b'"), ("a.pdf", b"%PDF-1.4\n1 0 obj", b"<41>"),
    ("a.pdf", b"%PDF-1.4\n", b"1 0 obj<</Kids[1 0 R 1 0 R]/Type/Pages>>endobj\n"), ("a.pdf", b"%PDF-1.4\n", b"1 0 obj<</EF<</F 1 0 R>>/Type/EmbeddedFile>>stream\nendstream endobj\n"), ("a.pdf", b"%PDF-1.4\n", b"1 0 obj<</XFA 1 0 R>>endobj\n"),
    ("a.pdf", b"%PDF-1.4\n", b"%%EOF\n"), ("a.pdf", b"%PDF-1.4\n", b"%"),
    ("a.pdf", b"%PDF-1.4\n", b"1 0 obj<</Type/ObjStm/N 999/First 9/Length 9>>stream\n1 0 2 0 3 0endstream endobj\n"),
    ("a.one", b"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d\xae\xb1\x53\x78\xd0\x29\x96\xd3", b"\xe7\x16\xe3\xbd\x65\x26\x11\x45\xa4\xc4\x8d\x4d\x0b\x7a\x9e\xac\x01\0\0\0\0\0\0\0"),
    ("a.lnk", b"\x4c\0\0\0\x01\x14\x02\0\0\0\0\0\xc0\0\0\0\0\0\0\x46\xff\xff\xff\xff", b"a\0"), ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"\0"),
    ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"\x01\0\0\0"), ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"DOCFILE\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    // Archives.
    ("a.zip", b"", b"PK\x03\x04"), ("a.zip", b"", b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0a"), ("a.zip", b"PK\x03\x04", b"PK\x01\x02"),
    ("a.zip", b"PK\x03\x04", b"PK\x05\x06\0\0\0\0\x01\0\x01\0\x2e\0\0\0\0\0\0\0\0\0"), ("a.zip", b"PK\x03\x04", b"PK\x05\x06"), ("a.zip", b"PK\x03\x04", b"PK\x06\x06PK\x06\x07"),
    ("a.zip", b"PK\x03\x04", b"PK\x01\x02\x14\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a"), ("a.zip", b"PK\x03\x04", b"PK\x07\x08"),
    ("a.gz", b"", b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0\0\0\0\0\0\0\0\0"), ("a.gz", b"", b"\x1f\x8b\x08"), ("a.bz2", b"", b"BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0"), ("a.bz2", b"BZh9", b"1AY&SY"),
    ("a.zst", b"", b"\x28\xb5\x2f\xfd\0\0\x01\0\0"), ("a.zst", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18\0\0\0\0"), ("a.xz", b"", b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\0\0\0\0\x1c\xdf\x44\x21\x1f\xb6\xf3\x7d\x01\0\0\0\0\x04YZ"),
    ("a.cpio", b"", b"070701000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000200000000a\0\0\0"), ("a.cpio", b"", b"070707"),
    ("a.ar", b"!<arch>\n", b"a/              0           0     0     644     0         `\n"), ("a.7z", b"7z\xbc\xaf\x27\x1c\0\x04", b"\0"), ("a.7z", b"7z\xbc\xaf\x27\x1c\0\x04", b"\x17\x06"),
    ("a.arj", b"", b"\x60\xea\x22\0"), ("a.arj", b"\x60\xea", b"\x60\xea\0\0"), ("a.ace", b"\0\0\0\0\0\0\0**ACE**", b"\0"), ("a.chm", b"ITSF\x03\0\0\0", b"PMGL"), ("a.sz", b"SZDD\x88\xf0\x27\x33A\0", b"\xff"),
    ("a.kwj", b"KWAJ\x88\xf0\x27\xd1", b"\0"), ("a.dat", b"\x78\x9f\x3e\x22\0\0", b"\x02\x02\x90\x06\0\0\0\0\0\0\0"), ("a.dat", b"\x78\x9f\x3e\x22\0\0", b"\x78\x9f\x3e\x22"),
    ("a.p7m", b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", b"\x30\x80"), ("a.p7m", b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", b"\x24\x80\x04\x01a"),
    // Pictures, and what lies in other files.
    ("a.gif", b"GIF89a\x01\0\x01\0\0\0\0", b"!\xf9\x04\0\0\0\0\0"), ("a.gif", b"GIF89a\x01\0\x01\0\0\0\0", b",\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0"), ("a.png", b"\x89PNG\r\n\x1a\n", b"\0\0\0\0tEXt\0\0\0\0"),
    ("a.jpg", b"\xff\xd8\xff", b"\xff\xe0\0\x02"), ("a.jpg", b"\xff\xd8\xff", b"\xff\xd8\xff"), ("a.bmp", b"BM\0\0\0\0\0\0\0\0", b"\0"), ("a.bin", b"\x01", b"MZ"), ("a.bin", b"\x01", b"MZ\x90\0PE\0\0"),
    ("a.bin", b"\x01", b"7z\xbc\xaf\x27\x1c"), ("a.bin", b"\x01", b"Rar!\x1a\x07\0"), ("a.bin", b"\x01", b"MSCF\0\0\0\0"), ("a.bin", b"\x01", b"\x1f\x8b\x08\0"), ("a.bin", b"\x01", b"%PDF-1"),
    ("a.bin", b"\x01", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), ("a.bin", b"\x01", b"PK\x03\x04"), ("a.bin", b"\x01", b"ITSF\x03\0\0\0"), ("a.bin", b"\x01", b"\0"), ("a.exe", b"MZ\x90\0", b"PK\x03\x04"),
    ("a.pdf", b"%PDF-1.4\n%%EOF\n", b"PK\x03\x04"), ("a.jpg", b"\xff\xd8\xff\xd9", b"MZ\x90\0"), ("a.img", b"\xeb\x3c\x90MSDOS5.0\0\x02\x01\x01\0\x02\xe0\0\x40\x0b\xf0\x09\0", b"A\0\0\0"),
];

/// CPU time of this thread (clock_gettime(2)).
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for the call.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(done, 0);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

fn cost(name: &str, bytes: &[u8]) -> Duration {
    let limits = Limits { cpu_time_max: CPU_MAX, ..Limits::default() };
    let before = cpu_time();
    let root = Root { name, declared_type: "", bytes };
    std::hint::black_box(unpack(&[root], &limits, &[], &mut NoHost));
    cpu_time() - before
}

fn file((_, head, piece): &Shape, bytes: usize) -> Vec<u8> {
    [head, &piece.repeat(bytes / piece.len())[..]].concat()
}

fn ratio(shape: &Shape, bytes: usize) -> f64 {
    let short = cost(shape.0, &file(shape, bytes)).min(cost(shape.0, &file(shape, bytes)));
    let long = cost(shape.0, &file(shape, bytes * TIMES));
    long.saturating_sub(NOISE).as_secs_f64() / short.as_secs_f64().max(1e-4)
}

pub(crate) fn time_grows_with_length_only() {
    let mut found = Vec::new();
    for shape in SHAPES {
        // A square is steep at every step; one step alone is where a table or a cache is outgrown.
        let steep = |bytes| Some(ratio(shape, bytes)).filter(|ratio| *ratio > RATIO_MAX);
        let both = || steep(SHORT_BYTES).and_then(|_| steep(SHORT_BYTES * TIMES));
        if let Some(ratio) = both().and_then(|_| both()).and_then(|_| both()) {
            let (name, _, piece) = shape;
            found.push(format!("{name}: {} {ratio:.0} times", piece.escape_ascii()));
        }
    }
    assert!(found.is_empty(), "{TIMES} times the length takes: {found:#?}");
}

use super::*;

/// Base64 of `hidden content of the file, long enough for a line of its own`.
const HIDDEN: &str = "hidden content of the file, long enough for a line of its own";

fn encoded() -> String {
    base64_simd::STANDARD.encode_to_string(HIDDEN)
}

/// Readings that show the hidden file, and its names there; the usual one among them.
fn found(raw: &str) -> Vec<(String, String)> {
    let raw = raw.replace('\n', "\r\n").replace("\r\r\n", "\r\n");
    let message = Message::parse(raw.as_bytes());
    let readings = message.readings();
    assert!(readings.complete);
    let shows = |f: &&ReadingFile| f.bytes.trim_ascii() == HIDDEN.as_bytes();
    let usual = message.files().into_iter().filter(|f| f.bytes.trim_ascii() == HIDDEN.as_bytes());
    let usual = usual.map(|f| ("usual".to_owned(), f.name.into_owned()));
    let others = readings.files.iter().filter(shows);
    others.map(|f| (f.reading.clone(), f.name.clone())).chain(usual).collect()
}

fn mail(rest: &str) -> String {
    format!("From: a@b.example\nSubject: x\nMIME-Version: 1.0\n{rest}")
}

#[test]
fn every_kind_of_ambiguity_shows_the_file() {
    let data = encoded();
    let part = format!(
        "Content-Type: application/x-msdownload; name=a.exe\nContent-Transfer-Encoding: base64\n\n{data}\n"
    );
    let cases = [
        // The fields say it twice.
        format!(
            "Content-Type: application/octet-stream; name=a.exe\nContent-Transfer-Encoding: 7bit\n\
             Content-Transfer-Encoding: base64\n\n{data}\n"
        ),
        // The first type is text to some programs, the second a container to others.
        format!(
            "Content-Type: text/plain\nContent-Type: multipart/mixed; boundary=b\n\n--b\n{part}--b--\n"
        ),
        // The boundary that counts is another one.
        format!(
            "Content-Type: multipart/mixed; boundary=a; boundary=b\n\n--a\n\ntext\n--b\n{part}--b--\n--a--\n"
        ),
        // Before the first boundary, and behind the last.
        format!("Content-Type: multipart/mixed; boundary=b\n\n{part}\n--b\n\ntext\n--b--\n"),
        format!(
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n\ntext\n--b--\n--c\n{part}--c--\n"
        ),
        // No boundary at all.
        format!("Content-Type: multipart/mixed\n\n--b\n{part}--b--\n"),
        // The fields end with a line of white space, or with one that is no field.
        format!("Content-Type: multipart/mixed; boundary=b\n \n--b\n{part}--b--\n"),
        format!(
            "Content-Type: application/x-msdownload; name=a.exe\nno field\n\
             Content-Transfer-Encoding: base64\n\n{data}\n"
        ),
        // Space before the colon, quotes and comments around the encoding.
        format!(
            "Content-Type: application/x-msdownload; name=a.exe\nContent-Transfer-Encoding : \"base64\"\n\n{data}\n"
        ),
        format!(
            "Content-Type: application/x-msdownload; name=a.exe\nContent-Transfer-Encoding: (x) base64;\n\n{data}\n"
        ),
        // An encoding that is an encoded word, whole or in part, and comments inside of it.
        format!(
            "Content-Type: application/x-msdownload; name=a.exe\nContent-Transfer-Encoding: =?us-ascii?Q?base=364?=\n\n{data}\n"
        ),
        format!(
            "Content-Type: application/x-msdownload; name=a.exe\nContent-Transfer-Encoding: =?utf-8?B?YmFzZTY0?=\n\n{data}\n"
        ),
        format!(
            "Content-Type: application/x-msdownload; name=a.exe\nContent-Transfer-Encoding: base6(7bit)4\n\n{data}\n"
        ),
        format!(
            "Content-Type: application/x-msdownload; name=a.exe\nContent-Transfer-Encoding: 7bit (base64)\n\n{data}\n"
        ),
        // A line that only begins like a boundary.
        format!(
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n\ntext\n--boundary\n{part}--b--\n"
        ),
    ];
    for case in cases {
        let files = found(&mail(&case));
        assert!(files.iter().any(|(_, name)| name == "a.exe"), "{case}\n{files:?}");
    }
}

#[test]
fn base64_ends_where_decoders_say() {
    let body = |data: &str| {
        mail(&format!(
            "Content-Type: application/octet-stream; name=a.bin\nContent-Transfer-Encoding: base64\n\n{data}\n"
        ))
    };
    let data = encoded();
    assert_eq!(found(&body(&format!("{data}\nQUJD\n")))[0].0[..24], *"base64 up to its padding");
    assert_eq!(found(&body(&format!("QQ==\n{data}\n")))[0].0[..25], *"base64 behind its padding");
    let unpadded = data.trim_end_matches('=');
    let readings = found(&body(&format!("{unpadded}!!QUJDREVG\n")));
    assert!(readings[0].0.contains("other character"), "{readings:?}");
    assert!(!found(&body(&format!("{}\n--no boundary\n{}", &data[..40], &data[40..]))).is_empty());
}

#[test]
fn parts_without_fields_and_preambles_are_text() {
    let text = "http://192.0.2.7/ is the address that only some programs show";
    let shows = |rest: &str| {
        let raw = mail(rest).replace('\n', "\r\n");
        let message = Message::parse(raw.as_bytes());
        let has = |bytes: &[u8]| memmem::find(bytes, text.as_bytes()).is_some();
        let found = message.readings();
        let mut leaves = message.parts().iter().filter(|p| !p.is_container);
        found.files.iter().any(|f| has(&f.bytes)) || leaves.any(|p| has(p.body()))
    };
    let twice = "Content-Type: multipart/mixed; boundary=a; boundary=b\n\n";
    assert!(shows(&format!("{twice}--a\n\nA\n--a--\n--b\n\n{text}\n--b--\n")));
    assert!(shows(&format!("{twice}--a\n\n{text}\n--a--\n--b\n\nB\n--b--\n")));
    assert!(shows(&format!("{twice}{text}\n--a\n\nA\n--a--\n--b\n\nB\n--b--\n")));
}

#[test]
fn containers_that_are_encoded_are_opened() {
    let inner = format!(
        "--b\r\nContent-Type: application/x-msdownload; name=a.exe\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{}\r\n--b--\r\n",
        encoded()
    );
    let outer = base64_simd::STANDARD.encode_to_string(inner);
    let raw = mail(&format!(
        "Content-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: base64\n\n{outer}\n"
    ));
    assert!(!found(&raw).is_empty());
}

#[test]
fn an_unambiguous_message_shows_nothing_more() {
    let raw = mail(
        "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nHello\n--b\n\
         Content-Type: application/octet-stream; name=a\nContent-Transfer-Encoding: base64\n\n\
         aGlkZGVuIGNvbnRlbnQ=\n--b--\n",
    )
    .replace('\n', "\r\n");
    let readings = Message::parse(raw.as_bytes()).readings();
    let left: Vec<&ReadingFile> =
        readings.files.iter().filter(|f| !f.reading.starts_with("not encoded")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn files_in_a_text_are_read_in_every_way() {
    let line = "4:&%R;6QE<W,@<&QA8V5H;VQD97(`";
    let shows = |text: &str| {
        let raw = mail(text).replace('\n', "\r\n");
        let message = Message::parse(raw.as_bytes());
        let readings = message.readings();
        assert!(readings.complete, "{text}");
        let is_it = |name: &str, bytes: &[u8]| bytes == b"harmless placeholder" && name == "a.exe";
        readings.files.iter().any(|f| is_it(&f.name, &f.bytes))
            || message.files().iter().any(|f| is_it(&f.name, f.bytes))
    };
    assert!(shows(&format!("\nbegin 644 a.exe\n{line}\n\n{line}\nend\n")), "up to an empty line");
    assert!(shows(&format!("\nbegin 644 a.exe\nsome words\n{line}\nend\n")), "sound lines");
    // The text is encoded itself, which only some programs see.
    let inner = format!("begin 644 a.exe\n{line}\n`\nend\n");
    let inner = base64_simd::STANDARD.encode_to_string(inner);
    let field = "Content-Transfer-Encoding: 7bit\nContent-Transfer-Encoding: base64";
    assert!(shows(&format!("Content-Type: text/plain\n{field}\n\n{inner}\n")));
    assert!(covers(DefectKind::UuencodedFile));
}

#[test]
fn work_is_bounded() {
    let many =
        "Content-Type: a/b\r\nContent-Transfer-Encoding: base64\r\n\r\nQUJD\r\n".repeat(30_000);
    let readings = Message::parse(many.as_bytes()).readings();
    assert!(!readings.complete && readings.files.len() <= FILES_MAX);
    let mut nested = b"Content-Type: a/b\r\n\r\nx".to_vec();
    for _ in 0..10 {
        let data = base64_simd::STANDARD.encode_to_string(&nested);
        nested =
            format!("Content-Type: multipart/x\r\nContent-Transfer-Encoding: base64\r\n\r\n{data}")
                .into_bytes();
    }
    assert!(!Message::parse(&nested).readings().complete);
    for end in (0..many.len().min(600)).rev() {
        Message::parse(&many.as_bytes()[..end]).readings();
    }
}

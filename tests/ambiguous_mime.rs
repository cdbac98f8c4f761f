//! What mail programs read in different ways, and programs under whatever name, reach nobody: the
//! messages of an attack, through the program itself and the policy that ships.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::yesterday;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The final disposition of each message, inbound and outbound, by `gauntlet policy test`.
fn dispositions(name: &str, messages: &[PathBuf]) -> Vec<(String, String)> {
    let mut cases = String::new();
    for message in messages {
        for direction in ["inbound", "outbound"] {
            let message = message.display();
            cases += &format!(
                "[[case]]\nmessage = {:?}\ndirection = {direction:?}\nexpect = \"none\"\n",
                message.to_string()
            );
        }
    }
    let file = std::env::temp_dir().join(format!("{name}-{}.toml", std::process::id()));
    std::fs::write(&file, cases).expect("a writable folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    let output = command.args(["policy", "test"]).arg(&file).output().expect("the program runs");
    let _ = std::fs::remove_file(&file);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let read = |line: &str| {
        let (message, end) = line.strip_prefix("FAIL ")?.split_once(" for ")?;
        let name = Path::new(message).file_name()?.to_string_lossy().into_owned();
        Some((name, end.split_once(": ")?.1.to_owned()))
    };
    let found: Vec<(String, String)> = text.lines().filter_map(read).collect();
    assert_eq!(
        found.len(),
        2 * messages.len(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    found
}

fn samples(prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("samples")).expect("samples/").flatten();
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(prefix) && name.ends_with(".eml")
    };
    let mut found: Vec<PathBuf> = entries.map(|e| e.path()).filter(is_one).collect();
    found.sort();
    found
}

#[test]
fn ambiguous_messages_are_held_and_programs_quarantined() {
    let ambiguous = samples("ambiguous-");
    assert!(ambiguous.len() >= 22);
    for (name, end) in dispositions("ambiguous", &ambiguous) {
        // Every reading has the same program in it, which is malware where the usual one does not
        // show it; what no reading shows is held.
        let unread = ["external-body", "partial-message"];
        let shown = ["bad-continuation", "boundary-prefix", "boundary-reused", "odd-field-name"];
        let shown_too = ["odd-transfer-encoding", "uuencoded-file"];
        let is_one = |kinds: &[&str]| kinds.iter().any(|kind| name.contains(kind));
        let expected = match (is_one(&unread), is_one(&shown) || is_one(&shown_too)) {
            (true, _) => "hold:unscannable by",
            (false, true) => "quarantine:programs by",
            (false, false) => "quarantine:malware by",
        };
        assert!(end.starts_with(expected), "{name}: {end}");
    }
    let programs = samples("program-");
    assert!(programs.len() >= 14);
    for (name, end) in dispositions("programs", &programs) {
        assert!(end.starts_with("quarantine:programs by"), "{name}: {end}");
    }
    for (name, end) in dispositions("harmless", &samples("ham-mime-")) {
        assert!(end.starts_with("deliver by"), "{name}: {end}");
    }
}

/// A message of two parts; the second has this header and body.
fn with_part(header: &[u8], body: &[u8]) -> Vec<u8> {
    let head = format!(
        "From: Anna Berg <anna@example.org>\r\nTo: Bob <recipient@example.org>\r\n\
        Subject: Minutes of Tuesday\r\nDate: {} 00:10:00 +0000\r\n\
        Message-ID: <abc123@example.org>\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=\"b1\"\r\n\r\n--b1\r\n\
        Content-Type: text/plain; charset=utf-8\r\n\r\n\
        Hello Bob,\r\n\r\nhere are the minutes that we talked about on Tuesday.\r\n\r\nAnna\r\n\
        --b1\r\n",
        yesterday()
    );
    [head.as_bytes(), header, b"\r\n\r\n", body, b"\r\n--b1--\r\n"].concat()
}

/// Writes the messages of a test into a folder of its own, under their names.
fn written(test: &str, messages: &[(String, Vec<u8>)]) -> (PathBuf, Vec<PathBuf>) {
    let folder = std::env::temp_dir().join(format!("{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable folder");
    let write = |(name, raw): &(String, Vec<u8>)| {
        let path = folder.join(format!("{name}.eml"));
        std::fs::write(&path, raw).expect("a writable folder");
        path
    };
    let paths = messages.iter().map(write).collect();
    (folder, paths)
}

/// The dispositions of messages that are made by the test.
fn ends(test: &str, messages: &[(String, Vec<u8>)]) -> Vec<(String, String)> {
    let (folder, paths) = written(test, messages);
    let found = dispositions(test, &paths);
    let _ = std::fs::remove_dir_all(folder);
    found
}

/// Parameters by which some program reads the name `setup.exe`; `N` stands for the parameter's
/// name.
const NAMES: [(&str, &str); 30] = [
    ("quoted-pair", "x=\"a\\\"; N=\"setup.exe\""),
    ("open-quote", "x=\"a; N=setup.exe"),
    ("quote-inside", "x=a\"b; N=setup.exe; y=c\"d"),
    ("comment-in-name", "N(x)=\"setup.exe\""),
    ("pieces-twice", "N*0=\"setup.e\"; N*0=\"a.t\"; N*1=\"xe\""),
    ("pieces-no-star", "N0=\"setup.e\"; N1=\"xe\""),
    ("token-comma", "N=setup.exe,.txt"),
    ("token-semicolon", "N=a;setup.exe"),
    ("star", "N=\"setup.exe*\""),
    ("pipe", "N=\"setup.exe|\""),
    ("pipe-inside", "N=\"setup.e|xe\""),
    ("two-strings", "N=\"setup.e\" \"xe\""),
    ("query", "N=\"setup.exe?x=.txt\""),
    ("copy", "N=\"setup.exe[1]\""),
    ("fold", "N=\"setup.e\r\n xe\""),
    ("word-in-word", "N=\"=?utf-8?B?PT91dGYtOD9CP2MyVjBkWEF1WlhobD89?=\""),
    ("word-half", "N=\"=?utf-8?Q?setup=2Eexe\""),
    ("word-no-end", "N=\"=?utf-8?B?c2V0dXAuZXhl?\""),
    ("word-blanks", "N=\"=? utf-8 ?B?c2V0dXAuZXhl?=\""),
    ("word-unknown", "N=\"=?utf-8?X?c2V0dXAuZXhl?=\""),
    ("reference", "N=\"setup.ex&#101;\""),
    ("reference-dot", "N=\"setup&#46;exe\""),
    ("best-fit", "N=\"setup.\u{113}xe\""),
    ("mathematical", "N=\"setup.\u{1d41e}\u{1d431}\u{1d41e}\""),
    ("name", "name=\"setup.exe\""),
    ("filename", "filename=\"setup.exe\""),
    ("other-name", "x-mac-name=setup.exe"),
    ("no-semicolon", "x=y N=setup.exe"),
    ("comma-between", "x=y, N = \"setup.exe\" z"),
    ("pieces-last", "N*0=\"a.e\"; N*0=\"setup.e\"; N*1=\"txt\"; N*1=\"xe\""),
];

/// Header blocks of a part that is a program to some mail program.
const PARTS: [(&str, &str); 16] = [
    (
        "no-disposition",
        "Content-Type: application/octet-stream\r\nContent-Disposition: filename=\"setup.exe\"",
    ),
    ("no-type", "Content-Type: name=\"setup.exe\""),
    ("field", "Content-Type: application/octet-stream\r\nX-Attachment-Name: setup.exe"),
    (
        "id",
        "Content-Type: application/octet-stream\r\nContent-ID: <setup.exe>\r\nContent-Disposition: attachment",
    ),
    ("type-exe", "Content-Type: application/x-msdos-program"),
    ("type-exe-name", "Content-Type: application/x-msdos-program; name=setup"),
    ("type-exe-pdf", "Content-Type: application/x-dosexec; name=setup.pdf"),
    ("type-msdownload", "Content-Type: application/x-msdownload"),
    ("type-js", "Content-Type: application/javascript"),
    ("type-js-text", "Content-Type: text/javascript"),
    ("type-hta", "Content-Type: application/hta"),
    ("type-jar", "Content-Type: application/java-archive"),
    ("type-scriptlet", "Content-Type: text/scriptlet"),
    ("type-lnk", "Content-Type: application/x-ms-shortcut"),
    ("type-url", "Content-Type: application/internet-shortcut"),
    ("type-vbs", "Content-Type: text/vbscript\r\nContent-Disposition: inline"),
];

#[test]
fn names_that_some_program_reads_are_judged() {
    let body = b"aGFybWxlc3MgcGxhY2Vob2xkZXIgY29udGVudA==";
    let encoding = "\r\nContent-Transfer-Encoding: base64";
    let mut messages = Vec::new();
    for (name, parameter) in NAMES {
        let disposition = format!(
            "Content-Type: application/octet-stream\r\n\
             Content-Disposition: attachment; {}{encoding}",
            parameter.replace('N', "filename")
        );
        let kind = format!(
            "Content-Type: application/octet-stream; {}\r\n\
             Content-Disposition: attachment{encoding}",
            parameter.replace('N', "name")
        );
        messages.push((format!("cd-{name}"), with_part(disposition.as_bytes(), body)));
        messages.push((format!("ct-{name}"), with_part(kind.as_bytes(), body)));
    }
    for (name, header) in PARTS {
        messages.push((name.to_owned(), with_part(format!("{header}{encoding}").as_bytes(), body)));
    }
    let root = b"From: a@b.example\r\nContent-Type: application/x-msdownload\r\n\r\nx\r\n";
    messages.push(("root".to_owned(), root.to_vec()));
    for (name, end) in ends("names", &messages) {
        assert!(end.starts_with("quarantine:programs by"), "{name}: {end}");
    }
}

/// Other scripts' letters that look like an extension open nothing, and a comma ends no name in
/// quotes.
#[test]
fn names_that_no_program_reads_as_a_program_are_delivered() {
    let harmless = [
        ("cyrillic", "filename=\"setup.\u{435}\u{445}\u{435}\""),
        ("comma", "filename=\"setup.exe,.txt\""),
        ("topic", "filename=\"Intro to node.js, part 2.pdf\""),
        ("folded", "filename=\"minutes of the\r\n meeting.pdf\""),
        ("semicolon", "filename=\"a; b.pdf\"; size=12"),
        ("brackets", "filename=\"report (final) [2].pdf\""),
    ];
    let mut messages = Vec::new();
    for (name, parameter) in harmless {
        let header = format!(
            "Content-Type: application/octet-stream\r\nContent-Disposition: attachment; {parameter}"
        );
        messages.push((name.to_owned(), with_part(header.as_bytes(), b"x")));
    }
    let id = b"Content-Type: application/octet-stream\r\nContent-ID: <part1.5.mail.example.com>";
    messages.push(("id".to_owned(), with_part(id, b"x")));
    for (name, end) in ends("harmless-names", &messages) {
        assert!(end.starts_with("deliver by"), "{name}: {end}");
    }
}

/// TNEF with one attachment, `data` under `name`.
fn tnef(name: &[u8], data: &[u8]) -> Vec<u8> {
    let attribute = |id: u16, kind: u16, data: &[u8]| {
        let length = u32::try_from(data.len()).expect("short").to_le_bytes();
        let sum = data.iter().fold(0u16, |sum, b| sum.wrapping_add(u16::from(*b)));
        let ids = [id.to_le_bytes(), kind.to_le_bytes()].concat();
        [&[2][..], &ids, &length, data, &sum.to_le_bytes()].concat()
    };
    [
        &b"\x78\x9f\x3e\x22\x01\x00"[..],
        &attribute(0x9002, 6, &[0; 14]),
        &attribute(0x8010, 1, &[name, b"\0"].concat()),
        &attribute(0x800f, 6, data),
    ]
    .concat()
}

#[test]
fn files_inside_texts_and_tnef_are_judged() {
    let octet = b"Content-Type: application/octet-stream; name=foo.bin\r\nContent-Transfer-Encoding: binary";
    let winmail =
        b"Content-Type: application/ms-tnef; name=winmail.dat\r\nContent-Transfer-Encoding: binary";
    let text = b"Content-Type: text/plain";
    let elf = b"\x7fELF\x02\x01\x01\0";
    let programs = [
        ("tnef", with_part(winmail, &tnef(b"setup.exe", b"hello"))),
        ("tnef-octet", with_part(octet, &tnef(b"setup.exe", b"hello"))),
        ("tnef-bytes", with_part(winmail, &tnef(b"readme", elf))),
        ("mach", with_part(octet, b"\xca\xfe\xba\xbe\0\0\0\x02\x01\0\0\x07")),
    ];
    let programs = programs.map(|(name, raw)| (name.to_owned(), raw));
    for (name, end) in ends("tnef", &programs) {
        assert!(end.starts_with("quarantine:programs by"), "{name}: {end}");
    }
    let harmless = [("tnef-pdf".to_owned(), with_part(winmail, &tnef(b"a.pdf", b"%PDF-1.4")))];
    for (name, end) in ends("tnef-harmless", &harmless) {
        assert!(end.starts_with("deliver by"), "{name}: {end}");
    }
    let data = b"\r\n4:&%R;6QE<W,@<&QA8V5H;VQD97(`\r\n`\r\nend\r\n";
    let mut encoded = Vec::new();
    for begin in ["begin 0100644 ", "begin 75 ", "begin  644  ", "begin  "] {
        let file = [b"Hello\r\n", begin.as_bytes(), b"setup.exe", data].concat();
        encoded.push((format!("uu-{}", encoded.len()), with_part(text, &file)));
        let file = [begin.as_bytes(), b"setup.exe", data].concat();
        encoded.push((format!("uu-octet-{}", encoded.len()), with_part(octet, &file)));
    }
    let yenc =
        b"=ybegin line=128 size=5 name=setup.exe\r\n\x92\x8f\x96\x96\x99\r\n=yend size=5\r\n";
    encoded.push(("yenc".to_owned(), with_part(text, yenc)));
    for (name, end) in ends("encoded", &encoded) {
        assert!(end.starts_with("quarantine:programs by"), "{name}: {end}");
    }
    // A file by uuencode that hides nothing is delivered; one that goes on elsewhere is held.
    let notes = [b"Hello\r\nbegin 644 notes.txt", &data[..]].concat();
    for (name, end) in ends("notes", &[("notes".to_owned(), with_part(text, &notes))]) {
        assert!(end.starts_with("deliver by"), "{name}: {end}");
    }
    let part = b"=ybegin part=1 line=128 size=9 name=a.txt\r\n=ypart begin=1 end=5\r\n\x92\x8f\x96\x96\x99\r\n=yend size=5\r\n";
    for (name, end) in ends("part", &[("part".to_owned(), with_part(text, part))]) {
        assert!(end.starts_with("hold:unscannable by"), "{name}: {end}");
    }
}

/// The test file for anti-virus programs, in bytes that are not its own.
#[test]
fn eicar_is_found_in_other_charsets_and_encodings() {
    let eicar =
        ["X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-", "STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"].concat();
    let wide = |big: bool| {
        let units = eicar.encode_utf16();
        units.flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect::<Vec<u8>>()
    };
    let utf32: Vec<u8> = eicar.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    let text = |charset: &str| {
        format!("Content-Type: text/plain; charset={charset}\r\nContent-Transfer-Encoding: binary")
    };
    let yenc: Vec<u8> = eicar.bytes().map(|b| b.wrapping_add(42)).collect();
    let yenc = [b"=ybegin line=128 size=68 name=a.txt\r\n", &yenc[..], b"\r\n=yend size=68\r\n"];
    let mut messages = vec![
        ("be".to_owned(), with_part(text("utf-16be").as_bytes(), &wide(true))),
        ("le".to_owned(), with_part(text("utf-16le").as_bytes(), &wide(false))),
        (
            "marked".to_owned(),
            with_part(text("utf-16").as_bytes(), &[&[0xff, 0xfe][..], &wide(false)].concat()),
        ),
        ("utf32".to_owned(), with_part(text("utf-32le").as_bytes(), &utf32)),
        ("yenc".to_owned(), with_part(b"Content-Type: text/plain", &yenc.concat())),
    ];
    let file = b"Content-Type: text/plain; charset=utf-16be; name=a.txt";
    messages.push(("file".to_owned(), with_part(file, &wide(true))));
    for (name, end) in ends("eicar", &messages) {
        assert!(end.starts_with("quarantine:malware by"), "{name}: {end}");
    }
}

/// Every extension that opens something, as an attachment's name.
#[test]
fn what_opens_a_program_is_quarantined_by_its_extension() {
    let extensions = [
        "accde",
        "accdr",
        "mda",
        "mdw",
        "mam",
        "mad",
        "job",
        "ppkg",
        "mof",
        "htc",
        "a3x",
        "ahk",
        "au3",
        "kix",
        "scpt",
        "applescript",
        "terminal",
        "workflow",
        "pkg",
        "deb",
        "rpm",
        "appimage",
        "crx",
        "xpi",
        "air",
        "vsix",
        "bgi",
        "vbscript",
        "prf",
        "cnt",
        "pyc",
        "asx",
        "mcl",
        "contact",
        "appcontent-ms",
        "msrcincident",
        "odc",
    ];
    let message = |extension: &str| {
        let header = format!(
            "Content-Type: application/octet-stream\r\n\
             Content-Disposition: attachment; filename=\"file.{extension}\""
        );
        (extension.to_owned(), with_part(header.as_bytes(), b"x"))
    };
    let messages: Vec<(String, Vec<u8>)> = extensions.into_iter().map(message).collect();
    for (name, end) in ends("extensions", &messages) {
        assert!(end.starts_with("quarantine:programs by"), "{name}: {end}");
    }
}

/// Of the corpus' nasty messages only those are delivered that hide nothing.
#[test]
fn nasty_messages_are_not_delivered_unless_they_are_harmless() {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS") else {
        eprintln!("GAUNTLET_CORPUS is not set: no nasty messages");
        return;
    };
    let folder = Path::new(&corpus).join("fixtures/synth-nasty");
    let entries = std::fs::read_dir(folder).expect("the corpus").flatten().map(|e| e.path());
    let mut messages: Vec<PathBuf> =
        entries.filter(|p| p.extension().is_some_and(|e| e == "eml")).collect();
    messages.sort();
    let delivered: Vec<String> = dispositions("nasty", &messages)
        .into_iter()
        .filter(|(_, end)| end.starts_with("deliver by"))
        .map(|(name, _)| name)
        .collect();
    let is_known = |name: &str| HARMLESS.contains(&name);
    let unexpected: Vec<&String> = delivered.iter().filter(|name| !is_known(name)).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}

/// Nasty messages that hide nothing.
const HARMLESS: [&str; 18] = [
    // The first 30 bytes of a file, which is all that anybody unpacks of it.
    "zip-truncated.eml",
    // A link in every reading, shown as it is.
    "boundary-missing-end.eml",
    // A few letters of text in every reading.
    "boundary-empty.eml",
    "boundary-prefix.eml",
    "boundary-twice-param.eml",
    "cte-nested-b64.eml",
    "cte-unknown.eml",
    "dup-content-type.eml",
    // Bare line ends in the middle of words: every reading is one text. The Receiver refuses it.
    "bare-cr-lf.eml",
    "lf-only.eml",
    "only-newlines.eml",
    "empty.eml",
    "no-body.eml",
    // Their text is one whatever the fields say.
    "encword-broken.eml",
    "from-dup.eml",
    "from-multi-addr.eml",
    "nul-in-header.eml",
    // One field, read whole.
    "header-folds-50000.eml",
];

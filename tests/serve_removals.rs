//! The policy's actions `strip`, `disarm` and `convert_names` through a node: what is delivered is
//! harmless, and the original is in quarantine before it leaves, also over kills.

use std::process::{Command, Stdio};

use crate::common::{Node, Smtp};
use crate::serve_milter::{offer, packet, talk};
use gauntlet_mail::Message;
use gauntlet_store::Quarantine;
use gauntlet_verdict::ReleasedBy;

const POLICY: &str = r#"
[[rule]]
name = "strip"
when = { subject = "*strip*", object = { path = "*.docm/word/vbaProject.bin" } }
do = { strip = { note = "Removed: {id}", release = "user" } }

[[rule]]
name = "disarm"
when.subject = "*disarm*"
do = { disarm = {} }

[[rule]]
name = "names"
when.subject = "*names*"
do = { convert_names = {} }
"#;

const TYPES: &str = "<Types><Override PartName=\"/word/document.xml\" \
    ContentType=\"application/vnd.ms-word.document.macroEnabled.main+xml\"/></Types>";
const RELATIONS: &str = "<Relationships><Relationship Id=\"r1\" \
    Type=\"http://schemas.microsoft.com/office/2006/relationships/vbaProject\" \
    Target=\"vbaProject.bin\"/></Relationships>";
const DOCUMENT: &str =
    "<w:document><w:body><w:p><w:r><w:t>Dear all</w:t></w:r></w:p></w:body></w:document>";

fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 },
        )
    };
    !bytes.iter().fold(!0, step)
}

/// A ZIP of stored files.
fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, body) in files {
        let offset = u32::try_from(out.len()).unwrap().to_le_bytes();
        let size = u32::try_from(body.len()).unwrap().to_le_bytes();
        let length = u16::try_from(name.len()).unwrap().to_le_bytes();
        let common = [
            &[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0][..],
            &crc(body).to_le_bytes(),
            &size,
            &size,
            &length,
            &[0, 0],
        ]
        .concat();
        out.extend([b"PK\x03\x04", &common[..], name.as_bytes(), body].concat());
        let entry = [b"PK\x01\x02\x14\0", &common[..], &[0; 10], &offset, name.as_bytes()].concat();
        directory.extend(entry);
    }
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    let at = u32::try_from(out.len()).unwrap().to_le_bytes();
    let length = u32::try_from(directory.len()).unwrap().to_le_bytes();
    out.extend(directory);
    out.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &length, &at, &[0, 0]].concat());
    out
}

fn docm() -> Vec<u8> {
    zip(&[
        ("[Content_Types].xml", TYPES.as_bytes()),
        ("word/_rels/document.xml.rels", RELATIONS.as_bytes()),
        ("word/document.xml", DOCUMENT.as_bytes()),
        ("word/vbaProject.bin", b"the project, which nobody needs"),
    ])
}

const PDF: &[u8] =
    b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R /OpenAction << /S /JavaScript \
    /JS (app.alert\\(1\\)) >> >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [] /Count 0 >>\nendobj\n\
    trailer\n<< /Root 1 0 R >>\n%%EOF\n";

fn part(kind: &str, name: &str, bytes: &[u8]) -> String {
    let encoded = base64_simd::STANDARD.encode_to_string(bytes);
    format!(
        "--b\r\nContent-Type: {kind}; name=\"{name}\"\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{encoded}\r\n"
    )
}

fn mail(subject: &str, parts: &[String]) -> Vec<u8> {
    format!(
        "From: ann@example.org\r\nTo: bob@example.net\r\nSubject: {subject}\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nSee what I send.\r\n{}--b--\r\n",
        parts.concat()
    )
    .into_bytes()
}

fn settings(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, POLICY).unwrap();
    format!("[policy]\npath = {path:?}\n[digest]\nurl = \"https://mail.example.com\"\n")
}

/// What Python's parser makes of a message: types and names of its parts; none without Python.
fn python(message: &[u8]) -> Option<String> {
    const PROGRAM: &str = "import sys,email,email.policy\n\
        m=email.message_from_bytes(sys.stdin.buffer.read(),policy=email.policy.default)\n\
        for p in m.walk(): print(p.get_content_type(),p.get_filename(),len(p.defects))";
    let mut child = Command::new("python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    std::io::Write::write_all(&mut child.stdin.take()?, message).ok()?;
    let output = child.wait_with_output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_part_is_stripped_and_its_recipient_has_a_link_to_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(&settings(&folder));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let body = mail(
        "strip",
        &[part("application/x", "a.docm", &docm()), part("text/csv", "b.csv", b"1,2")],
    );
    let to = ["bob@example.net", "eve@example.net"];
    let reply = client.send("ann@example.org", &to, &body).unwrap();
    assert!(reply.starts_with("250 "), "{reply}");
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    assert_eq!(delivered.len(), 2);
    let mut links = Vec::new();
    for raw in &delivered {
        let message = Message::parse(raw);
        let note = message.parts()[2].text().unwrap();
        for words in ["Removed: 1", "a.docm", "vbaProject.bin", "Rule:    strip", "SHA-256:"] {
            assert!(note.contains(words), "{words}: {note}");
        }
        links.extend(
            note.lines()
                .filter(|l| l.starts_with("https://mail.example.com/link/"))
                .map(str::to_owned),
        );
        assert_eq!(message.parts()[3].body(), b"1,2");
        assert!(message.header("X-Gauntlet-Removed").is_some());
        if let Some(read) = python(raw) {
            let expected =
                "multipart/mixed None 0\ntext/plain None 0\ntext/plain None 0\ntext/csv b.csv 0\n";
            assert_eq!(read, expected);
        }
    }
    links.sort();
    links.dedup();
    assert_eq!(links.len(), 2, "each recipient has a link of their own");
    node.stop();
    let quarantine = Quarantine::open_shared(&node.data().join("quarantine")).unwrap();
    let id = reply.split_whitespace().last().unwrap();
    for (number, address) in (1..).zip(to) {
        let held = quarantine.get(&format!("{id}-o{number}")).unwrap().expect("it is held");
        assert_eq!(
            (held.item.folder.as_str(), held.item.recipients),
            ("stripped", vec![address.to_owned()])
        );
        assert_eq!(held.item.release, Some(ReleasedBy::User));
        let original = quarantine.body(&held.item.id).unwrap().unwrap();
        assert_eq!(Message::parse(&original).parts()[2].body(), docm());
    }
}

#[test]
fn files_are_disarmed_in_the_cage_and_names_converted() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(&settings(&folder));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let macros = "application/vnd.ms-word.document.macroEnabled.12";
    let page =
        "--b\r\nContent-Type: text/html\r\n\r\n<p onclick=\"x()\">Hi</p><script>y()</script>\r\n";
    let parts = [
        part(macros, "a.docm", &docm()),
        part("application/pdf", "b.pdf", PDF),
        part("image/gif", "c.gif", b"GIF89a"),
        page.to_owned(),
        part("application/zip", "d.zip", &zip(&[("run.exe", b"MZ\x90\0\x03\0\0\0")])),
    ];
    let mut send = |body: &[u8]| {
        let reply = client.send("ann@example.org", &["bob@example.net"], body).unwrap();
        assert!(reply.starts_with("250 "), "{reply}");
    };
    send(&mail("disarm", &parts));
    node.wait_for_empty_queue();
    let delivered = node.maildir().remove(0);
    let message = Message::parse(&delivered);
    let shown = String::from_utf8_lossy(&delivered);
    let names: Vec<_> =
        message.parts().iter().skip(2).map(|p| p.file_name().unwrap_or_default()).collect();
    assert_eq!(names, ["a.docx", "b.pdf", "c.gif", "", ""], "{shown}");
    let document = message.parts()[2].body();
    assert!(memchr::memmem::find(document, b"vbaProject").is_none());
    let pdf = message.parts()[3].body();
    assert_eq!(pdf.len(), PDF.len());
    assert!(memchr::memmem::find(pdf, b"/JavaScript").is_none());
    assert_eq!(message.parts()[5].text().map(str::trim), Some("<p >Hi</p>"));
    let stripped = message.parts()[6].text().unwrap();
    assert!(stripped.contains("d.zip") && stripped.contains("is a program"), "{stripped}");
    send(&mail("names", &[part("application/x-msdownload", "setup.exe", b"MZ")]));
    node.wait_for_empty_queue();
    let renamed = |raw: &Vec<u8>| {
        Message::parse(raw).parts().iter().any(|p| p.file_name() == Some("setup.exe.txt"))
    };
    assert!(node.maildir().iter().any(renamed));
    node.stop();
    let quarantine = Quarantine::open_shared(&node.data().join("quarantine")).unwrap();
    let held = quarantine.search(&Default::default()).unwrap().items;
    let folders: Vec<_> = held.iter().map(|h| h.item.folder.as_str()).collect();
    assert_eq!(folders, ["disarmed"], "a message whose names alone change is not held");
}

#[test]
fn a_kill_between_quarantine_and_delivery_loses_neither() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(&settings(&folder));
    let mut ids = Vec::new();
    for round in 0..6u64 {
        let mut client = Smtp::connect(node.smtp).unwrap();
        for number in 0..5 {
            let subject = format!("strip t{round}x{number}");
            let body = mail(&subject, &[part("application/x", "a.docm", &docm())]);
            let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
            assert!(reply.starts_with("250 "), "{reply}");
            ids.push((subject, reply.split_whitespace().last().unwrap().to_owned()));
        }
        std::thread::sleep(std::time::Duration::from_millis(round * 3));
        node.kill();
        node.run();
    }
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    node.stop();
    let quarantine = Quarantine::open_shared(&node.data().join("quarantine")).unwrap();
    for (subject, id) in &ids {
        let copies: Vec<_> =
            delivered.iter().filter(|raw| Message::parse(raw).subject() == *subject).collect();
        assert!(!copies.is_empty(), "{subject} is not delivered");
        for raw in copies {
            assert!(Message::parse(raw).header("X-Gauntlet-Removed").is_some(), "{subject}");
        }
        let original = quarantine.body(&format!("{id}-o1")).unwrap();
        let original = original.unwrap_or_else(|| panic!("the original of {subject} is lost"));
        assert_eq!(Message::parse(&original).parts()[2].body(), docm());
    }
}

/// Names of the files of the newest message of this subject.
fn delivered_names(node: &Node, subject: &str) -> Vec<String> {
    node.wait_for_empty_queue();
    let all = node.maildir();
    let raw = all.iter().find(|raw| Message::parse(raw).subject() == subject).expect("delivered");
    let message = Message::parse(raw);
    message.parts().iter().skip(2).filter_map(|p| p.file_name().map(str::to_owned)).collect()
}

#[test]
fn a_reload_changes_by_what_files_are_disarmed() {
    let folder = tempfile::tempdir().unwrap();
    let on = format!("{}[content]\nenabled = true\n", settings(&folder));
    let mut node = Node::start(&on);
    let send = |node: &Node, subject: &str| {
        let mut client = Smtp::connect(node.smtp).unwrap();
        let body = mail(subject, &[part("application/pdf", "b.pdf", PDF)]);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250 "), "{reply}");
        delivered_names(node, subject)
    };
    let mut reloads = 0;
    let mut reload = |node: &mut Node, from: &str, to: &str| {
        reloads += 1;
        node.config = node.config.replace(from, to);
        node.write_config();
        node.signal("-HUP");
        node.wait_until("it is reloaded", || {
            node.log().matches("configuration reloaded").count() == reloads
        });
    };
    assert_eq!(send(&node, "disarm one"), ["b.pdf"]);
    reload(&mut node, "enabled = true", "enabled = false");
    assert!(send(&node, "disarm two").is_empty(), "stripped: nothing disarms it now");
    reload(&mut node, "enabled = false", "enabled = true");
    assert_eq!(send(&node, "disarm three"), ["b.pdf"]);
}

/// What a milter answers to a message: each packet's command and data.
fn ask_milter(node: &Node, raw: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let text = std::str::from_utf8(raw).unwrap();
    let (header, body) = text.split_once("\r\n\r\n").unwrap();
    let mut bytes = offer();
    bytes.extend(packet(b'C', b"c.example\x004\x00\x19192.0.2.1\0"));
    bytes.extend(packet(b'M', b"<ann@example.org>\0"));
    bytes.extend(packet(b'R', b"<bob@example.net>\0"));
    for field in header.split("\r\n") {
        let (name, value) = field.split_once(':').unwrap();
        bytes.extend(packet(b'L', format!("{name}\0{value}\0").as_bytes()));
    }
    bytes.extend(packet(b'N', b""));
    bytes.extend(packet(b'B', body.as_bytes()));
    bytes.extend(packet(b'E', b""));
    bytes.extend(packet(b'Q', b""));
    let answer = talk(node, &bytes);
    let (mut packets, mut rest) = (Vec::new(), answer.as_slice());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (one, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        packets.push((one[0], one[1..].to_vec()));
        rest = after;
    }
    packets
}

#[test]
fn a_milter_hands_back_the_disarmed_body() {
    let folder = tempfile::tempdir().unwrap();
    let service = "[facts]\nenabled = false\n[[service]]\nprotocol = \"milter\"\n\
                   address = \"127.0.0.1:0\"\n";
    let mut node = Node::start(&format!("{}{service}", settings(&folder)));
    let macros = "application/vnd.ms-word.document.macroEnabled.12";
    let raw = mail(
        "disarm",
        &[
            part(macros, "a.docm", &docm()),
            part("image/gif", "c.gif", b"GIF89a"),
            part("application/zip", "d.zip", &zip(&[("run.exe", b"MZ\x90\0\x03\0\0\0")])),
        ],
    );
    let packets = ask_milter(&node, &raw);
    let body: Vec<u8> =
        packets.iter().filter(|p| p.0 == b'b').flat_map(|p| p.1.iter().copied()).collect();
    let whole = [b"Content-Type: multipart/mixed; boundary=b\r\n\r\n", &body[..]].concat();
    let message = Message::parse(&whole);
    let names: Vec<_> = message.parts().iter().skip(2).filter_map(|p| p.file_name()).collect();
    assert_eq!(names, ["a.docx", "c.gif"], "{}", String::from_utf8_lossy(&whole));
    assert!(memchr::memmem::find(message.parts()[2].body(), b"vbaProject").is_none());
    let note = message.parts()[4].text().unwrap();
    assert!(note.contains("d.zip") && note.contains("is a program"), "{note}");
    let inserted = packets.iter().filter(|p| p.0 == b'i');
    let says = |name: &[u8]| inserted.clone().any(|p| memchr::memmem::find(&p.1, name).is_some());
    assert!(says(b"X-Gauntlet-Disarmed") && says(b"X-Gauntlet-Removed"), "{packets:?}");
    assert_eq!(packets.last().map(|p| p.0), Some(b'a'), "accepted");
    // What is clean is left as it is, and nothing is kept of it.
    let clean = mail("disarm", &[part("image/gif", "c.gif", b"GIF89a")]);
    let packets = ask_milter(&node, &clean);
    assert!(packets.iter().all(|p| p.0 != b'b'), "{packets:?}");
    node.stop();
    let quarantine = Quarantine::open(&node.data().join("quarantine")).unwrap();
    let held = quarantine.search(&Default::default()).unwrap().items;
    let folders: Vec<_> = held.iter().map(|h| h.item.folder.as_str()).collect();
    assert_eq!(folders, ["disarmed"], "one original");
    let original = quarantine.body(&held[0].item.id).unwrap().unwrap();
    assert_eq!(Message::parse(&original).parts()[2].body(), docm());
}

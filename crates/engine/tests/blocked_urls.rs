//! A blocked host is found however a link to it is written, if a recipient's program would open it;
//! issue: blocked hosts were missed behind redirectors, control characters, Office schemes and
//! others.

use gauntlet_engine::{Scratch, Settings, Snapshot, scan};
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_verdict::{Class, Verdict};

const HEAD: &str = "From: a@sender.example\nTo: b@here.example\nSubject: x\n\
    Date: Sat, 21 Nov 2026 10:00:00 +0000\nMessage-ID: <1@sender.example>\n";

fn snapshot() -> Snapshot {
    let block = ["evil.com", "203.0.113.9", "bücher.com"].map(str::to_owned).to_vec();
    Snapshot::build(&Settings { block, ..Settings::default() }).expect("a snapshot")
}

fn judge(raw: &[u8], snapshot: &Snapshot) -> Verdict {
    let (envelope, facts) = (Envelope::default(), Facts::default());
    scan(&Message::parse(raw), &envelope, &facts, snapshot, &mut Scratch::default())
}

fn html(body: &str) -> Vec<u8> {
    format!("{HEAD}Content-Type: text/html; charset=utf-8\n\n<p>Hello {body}</p>\n").into_bytes()
}

fn plain(body: &str) -> Vec<u8> {
    format!("{HEAD}Content-Type: text/plain; charset=utf-8\n\nHello {body} bye\n").into_bytes()
}

/// All bodies hold a link to a blocked host; all that are missed are reported together.
fn all_blocked(mail: fn(&str) -> Vec<u8>, bodies: &[&str]) {
    let snapshot = snapshot();
    let missed: Vec<&&str> = bodies
        .iter()
        .filter(|body| {
            let verdict = judge(&mail(body), &snapshot);
            verdict.hit("BLOCK_URL").is_none() || verdict.class < Class::Spam
        })
        .collect();
    assert!(missed.is_empty(), "missed: {missed:#?}");
}

#[test]
fn behind_redirectors() {
    let targets = [
        "https://www.google.com/url?q=https://evil.com/x&sa=D",
        "https://www.google.com/url?sa=t&url=https%3A%2F%2Fevil.com%2Fx",
        "https://www.google.com/url?q=evil.com/x",
        "https://www.google.com/amp/s/evil.com/x",
        "https://www.google.com/amp/evil.com/x",
        "https://nam02.safelinks.protection.outlook.com/?url=https%3A%2F%2Fevil.com%2Fx&data=05",
        "https://urldefense.proofpoint.com/v2/url?u=https-3A__evil.com_x&d=DwMF",
        "https://urldefense.com/v3/__https://evil.com/x__;!!abc",
        "https://urldefense.com/v3/__https://*v*l.com/x__;ZWk!!abc",
        "https://www.youtube.com/redirect?event=x&q=https%3A%2F%2Fevil.com",
        "https://ad.doubleclick.net/clk;1;2;k?https://evil.com/x",
        "https://adclick.g.doubleclick.net/pcs/click?xai=A&adurl=https://evil.com",
        "https://www.googleadservices.com/pagead/aclk?sa=L&adurl=https%3A%2F%2Fevil.com",
        "https://l.facebook.com/l.php?u=https%3A%2F%2Fevil.com%2F&h=AT0",
        "https://www.linkedin.com/redir/redirect?url=https%3A%2F%2Fevil%2Ecom&urlhash=x",
        "https://t.umblr.com/redirect?z=https%3A%2F%2Fevil.com&t=x",
        "https://www.bing.com/ck/a?!&&p=0&u=a1aHR0cHM6Ly9ldmlsLmNvbS94&ntb=1",
        "https://duckduckgo.com/l/?uddg=https%3A%2F%2Fevil.com%2F",
        "https://steamcommunity.com/linkfilter/?url=https://evil.com",
        "https://vk.com/away.php?to=https%3A%2F%2Fevil.com",
        "https://evil-com.translate.goog/x?_x_tr_sl=auto",
        "https://evil-com.cdn.ampproject.org/c/s/evil.com/x",
        "https://web.archive.org/web/2020/http://evil.com/",
        "https://good.example/?next=https%253A%252F%252Fevil.com",
        "https://good.example/?next=https%25253A%25252F%25252Fevil.com",
        "https://good.example/?next=//evil.com/x",
        "https://good.example/?next=%2F%2Fevil.com",
        "https://good.example/?next=https:evil.com",
        "https://good.example/#https://evil.com/",
        "https://good.example/68747470733a2f2f6576696c2e636f6d2f",
        "https://good.example/?a=http://fine.example&b=http://evil.com",
        "https://good.example/?u=http://fine.example/?u=http%3A%2F%2Fevil.com",
        "https://good.example/?u=http://name@evil.com/",
    ];
    let links = targets.map(|t| format!("<a href=\"{t}\">x</a>"));
    all_blocked(html, &links.each_ref().map(String::as_str));
    all_blocked(plain, &targets);
    let long = format!("https://good.example/?pad={}&q=https://evil.com/x", "a".repeat(9_000));
    all_blocked(plain, &[&long]);
    all_blocked(html, &[&format!("<a href='{long}'>x</a>")]);
}

#[test]
fn as_browsers_read_attributes() {
    all_blocked(
        html,
        &[
            "<a href='&#1;https://evil.com/'>x</a>",
            "<a href='&#x1f;&#32; https://evil.com/'>x</a>",
            "<a href='ht&#9;tps://ev&#10;il.c&#13;om/'>x</a>",
            "<a href='ht\ntps://ev\til.com/'>x</a>",
            "<a href='https&colon;//evil&period;com/'>x</a>",
            "<a href='https:evil.com/'>x</a>",
            "<a href='https:/\\evil.com/'>x</a>",
            "<a href='https:\\\\\\evil.com/'>x</a>",
            "<a href='https://////evil.com/'>x</a>",
            "<a href='//evil.com/'>x</a>",
            "<a href='/\\evil.com/'>x</a>",
            "<a href='\\\\evil.com\\share'>x</a>",
            "<a href='https://good.example@evil.com/'>x</a>",
            "<a href='https://good.example:x@evil.com:8080/'>x</a>",
            "<a href='https://good.example\\@evil.com/'>x</a><a href='https://evil.com'>y</a>",
            "<a href='https://3405803785/'>x</a>",
            "<a href='https://0xcb007109/'>x</a>",
            "<a href='https://0313.0.0161.011/'>x</a>",
            "<a href='https://0xcb.0x0.0x71.0x9/'>x</a>",
            "<a href='https://203.0.28937/'>x</a>",
            "<a href='https://203.0.113.9/'>x</a>",
            "<a href='https://[::ffff:203.0.113.9]/'>x</a>",
            "<a href='https://%65vil.com/'>x</a>",
            "<a href='https://evil%2ecom/'>x</a>",
            "<a href='https://evil%E3%80%82com/'>x</a>",
            "<a href='https://evil。com/'>x</a>",
            "<a href='https://evil．com/'>x</a>",
            "<a href='https://evil｡com/'>x</a>",
            "<a href='https://ｅｖｉｌ.com/'>x</a>",
            "<a href='https://𝐞𝐯𝐢𝐥.com/'>x</a>",
            "<a href='https://ⓔvil.com/'>x</a>",
            "<a href='https://ev\u{ad}il.com/'>x</a>",
            "<a href='https://ev\u{200b}il.com/'>x</a>",
            "<a href='https://ev&zwnj;il.com/'>x</a>",
            "<a href='https://ev&#8288;il.com/'>x</a>",
            "<a href='https://EVIL.COM./'>x</a>",
            "<a href='https://a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h\
             .i.j.k.evil.com/'>x</a>",
            "<a href='https://xn--bcher-kva.com/'>x</a>",
            "<a href='evil.com/x'>x</a>",
            "<a href='ev\u{200b}il.com/x'>x</a>",
        ],
    );
    let user = "a".repeat(5_000);
    all_blocked(html, &[&format!("<a href='https://{user}@evil.com/'>x</a>")]);
    all_blocked(plain, &[&format!("https://{user}@evil.com/")]);
}

#[test]
fn behind_labels_that_no_host_name_has() {
    let signs =
        ["!", "$", "&", "(", ")", "*", "+", ",", ";", "=", "~", "{", "}", "`", "'", "%24", "%21"];
    let links = signs.map(|s| format!("<a href=\"http://a{s}b.evil.com/x\">x</a>"));
    all_blocked(html, &links.each_ref().map(String::as_str));
    let texts = signs.map(|s| format!("http://a{s}b.evil.com/x"));
    all_blocked(plain, &texts.each_ref().map(String::as_str));
    all_blocked(
        html,
        &[
            "<a href='http://a\"b.evil.com/'>x</a>",
            "<a href='http://a&amp;b.www.evil.com:8080/'>x</a>",
            "<a href='//a!b.evil.com'>x</a>",
            "<a href='http://good.example@a!b.evil.com'>x</a>",
        ],
    );
    let verdict = judge(&html("<a href='http://a!evil.com/'>x</a>"), &snapshot());
    assert!(verdict.hit("BLOCK_URL").is_none(), "another domain");
}

#[test]
fn ipv4_addresses_within_ipv6_ones() {
    all_blocked(
        html,
        &[
            "<a href='http://[::ffff:203.0.113.9]/'>x</a>",
            "<a href='http://[::ffff:cb00:7109]/'>x</a>",
            "<a href='http://[2002:cb00:7109::1]/'>x</a>",
            "<a href='http://[64:ff9b::203.0.113.9]/'>x</a>",
            "<a href='http://[64:ff9b::cb00:7109]:8080/'>x</a>",
            "<a href='http://[::203.0.113.9]/'>x</a>",
        ],
    );
    let verdict = judge(&html("<a href='http://[2002:cb00:710a::1]/'>x</a>"), &snapshot());
    assert!(verdict.hit("BLOCK_URL").is_none(), "another address");
}

#[test]
fn hosts_that_some_programs_make_clickable() {
    all_blocked(
        plain,
        &[
            "https://good.com\u{2044}login@evil.com/x",
            "https://good.com\u{2215}login@evil.com/x",
            "go to Evil.Com now",
            "go to x.evil.com. Now",
            "bücher.com/x",
            "www.bücher.com",
            "请看www.evil.com今天",
            "_evil.com_",
            "a=evil.com",
            "<http://www.ev\nil.com/x>",
            "<URL:http://www.ev\r\nil.com/x>",
        ],
    );
    all_blocked(html, &["<a href='evil.com'>x</a>", "<a href='Evil.Com'>x</a>"]);
    let short = ["x.com", "evil.in"].map(str::to_owned).to_vec();
    let short = Snapshot::build(&Settings { block: short, ..Settings::default() }).unwrap();
    for raw in [
        plain("go to x.com now"),
        plain("go to evil.in now"),
        html("<a href='evil.in'>x</a>"),
        html("go to evil.in"),
    ] {
        let verdict = judge(&raw, &short);
        assert!(verdict.hit("BLOCK_URL").is_some(), "{}", String::from_utf8_lossy(&raw));
    }
    for body in ["write to joe@evil.com please", "notevil.com evil.com.example evil.community"] {
        assert!(judge(&plain(body), &snapshot()).hit("BLOCK_URL").is_none(), "{body}");
    }
}

#[test]
fn in_lines_that_programs_join_and_in_header_fields() {
    let flowed = "Content-Type: text/plain; charset=utf-8; format=flowed; delsp=yes";
    let page = "Content-Type: text/html; charset=utf-8\n\n<a href='x/y'>z</a>\n";
    let snapshot = snapshot();
    for raw in [
        format!("{HEAD}{flowed}\n\nhttp://www.ev \nil.com/x\n"),
        format!("{HEAD}{flowed}\n\nhttp://www. \r\nevil.com/x\n"),
        format!("{HEAD}List-Unsubscribe: <https://evil.com/u>\n\nx\n"),
        format!("{HEAD}List-Unsubscribe: <mailto:x@y.example>,\n <https://evil.com/u>\n\nx\n"),
        format!("{HEAD}Content-Base: http://evil.com/\n{page}"),
        format!("{HEAD}Content-Location: http://evil.com/\n{page}"),
        format!("{HEAD}X-Mozilla-External-Attachment-URL: https://evil.com/x\n\nx\n"),
        format!("{HEAD}\nx\n").replace("From: a@", "From: \"see evil.com/x\" <a@"),
    ] {
        let raw = raw.replace("example\nTo:", "example>\nTo:");
        assert!(judge(raw.as_bytes(), &snapshot).hit("BLOCK_URL").is_some(), "{raw}");
    }
}

#[test]
fn in_parts_that_programs_take_for_pages_calendars_and_cards() {
    let link = "https:&#x2F;&#x2F;ev&#105;l&#46;com/x";
    let page = format!("<html><body><a href=\"{link}\">x</a></body></html>");
    let svg = format!("<svg xmlns=\"http://www.w3.org/2000/svg\"><a xlink:href=\"{link}\"/></svg>");
    let event = |line: &str| format!("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n{line}\r\nEND:VEVENT\r\n");
    let folded = event("URL:https://ev\r\n il.com/x");
    let described = event(&format!("X-ALT-DESC:<a href=\"{}\">", link.replace(';', "\\;")));
    let snapshot = snapshot();
    for (kind, name, body) in [
        ("application/octet-stream", "a.html", &*page),
        ("application/octet-stream", "a.SHTML", &page),
        ("application/octet-stream", "a.xht", &page),
        ("application/octet-stream", "a.bin", &page),
        ("text/plain", "a.htm", &page),
        ("image/png", "a.html", &page),
        ("image/png", "a.png", &page),
        ("application/xhtml+xml", "a", &page),
        ("text/xml", "a", &page),
        ("application/xml", "a", &page),
        ("image/svg+xml", "a.svg", &svg),
        ("application/octet-stream", "a.svg", &svg),
        ("text/calendar", "a", &folded),
        ("text/calendar", "a", &described),
        ("application/ics", "a.ics", &folded),
        ("application/octet-stream", "a.ics", &folded),
        ("text/vcard", "a", "BEGIN:VCARD\r\nURL:https://ev\r\n il.com/x\r\nEND:VCARD\r\n"),
        ("application/octet-stream", "a.vcf", "BEGIN:VCARD\nURL:https://ev\n\til.com\nEND:VCARD\n"),
    ] {
        let raw = attached(kind, name, body);
        assert!(judge(&raw, &snapshot).hit("BLOCK_URL").is_some(), "{kind} {name}: {body}");
    }
}

/// A message with a file attached in base64.
fn attached(kind: &str, name: &str, body: &str) -> Vec<u8> {
    let body = base64_simd::STANDARD.encode_to_string(body);
    format!(
        "{HEAD}Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n--b\nContent-Type: {kind}\n\
         Content-Disposition: attachment; filename=\"{name}\"\nContent-Transfer-Encoding: base64\n\n\
         {body}\n--b--\n"
    )
    .into_bytes()
}

#[test]
fn in_plain_text() {
    all_blocked(
        plain,
        &[
            "https://evil。com/x",
            "https://evil．com/x",
            "https://evil｡com/x",
            "https://ev\u{200b}il.com/x",
            "https://ev\u{ad}il.com/x",
            "https://ev\u{2060}il.com/x",
            "https://evil\u{200d}.com",
            "https://ｅｖｉｌ．ｃｏｍ/x",
            "https：／／evil.com/x",
            "h\u{200b}ttps://evil.com/x",
            "evil。com",
            "www.ev\u{200b}il.com",
            "ｅｖｉｌ.com/login",
            "https:evil.com/x",
            "https:/evil.com/x",
            "https:\\\\evil.com\\x",
            "https:////evil.com/x",
            "\\\\evil.com\\share\\x.docx",
            "file://evil.com/share/x.docx",
            "ftp://evil.com/x",
            "hxxps://evil[.]com/x",
            "https://3405803785/",
            "https://good.example@evil.com/",
            "https://%65vil.com/",
        ],
    );
}

#[test]
fn in_every_place_of_a_page() {
    all_blocked(
        html,
        &[
            "<!--[if mso]><a href='https://evil.com/'>x</a><![endif]-->",
            "<!--[if gte mso 9]><v:roundrect href='https://evil.com/'></v:roundrect><![endif]-->",
            "<!--[if !mso]><!--><a href='https://evil.com/'>x</a><!--<![endif]-->",
            "<v:roundrect xmlns:v='urn:schemas-microsoft-com:vml' href='https://evil.com/'>",
            "<v:imagedata src='https://evil.com/x.png'>",
            "<svg><a xlink:href='https://evil.com/'><text>x</text></a></svg>",
            "<svg><a href='https://evil.com/'><text>x</text></a></svg>",
            "<svg><image xlink:href='https://evil.com/x.png'/></svg>",
            "<svg><use href='//evil.com/x.svg#a'/></svg>",
            "<math><mi xlink:href='https://evil.com/'>x</mi></math>",
            "<base href='https://evil.com/'><a href='x'>x</a>",
            "<form action='https://evil.com/'><input name=a></form>",
            "<button formaction='https://evil.com/'>x</button>",
            "<map><area href='https://evil.com/'></map>",
            "<meta http-equiv='refresh' content='0; url=https://evil.com/'>",
            "<meta http-equiv='&#114;efresh' content='0; url=&#1;https://evil.com/'>",
            "<a href='https://good.example/' ping='https://evil.com/p'>x</a>",
            "<img srcset='https://good.example/a.png 1x, https://evil.com/b.png 2x'>",
            "<video poster='https://evil.com/x.png'></video>",
            "<p style='background:url(https://evil.com/x.png)'>x</p>",
            "<p style='background:url(\\68ttps://evil.com/x.png)'>x</p>",
            "<style>@import 'https://evil.com/x.css';</style>",
            "<style>p{background:url(https\\3a //evil.com/x.png)}</style>",
            "<object data='https://evil.com/x'></object>",
            "<embed src='https://evil.com/x'>",
            "<iframe src='https://evil.com/x'></iframe>",
            "<iframe srcdoc='&lt;a href=&quot;https://evil.com/&quot;&gt;x&lt;/a&gt;'></iframe>",
            "<table background='https://evil.com/x.png'></table>",
            "<td data-saferedirecturl='https://www.google.com/url?q=https://evil.com/'>",
            "<script>location='https://evil.com/'</script>",
            "<script>location='https:\\/\\/evil.com\\/'</script>",
            "<noscript><a href='https://evil.com/'>x</a></noscript>",
            "<textarea><a href='https://evil.com/'>x</a></textarea>",
            "<link rel=stylesheet href='https://evil.com/x.css'>",
            "<blockquote cite='https://evil.com/'>x</blockquote>",
        ],
    );
}

#[test]
fn in_schemes_of_programs() {
    let targets = [
        "ms-word:ofe|u|https://evil.com/x.docx",
        "ms-excel:ofv|u|https://evil.com/x.xlsx",
        "ms-powerpoint:ofe%7Cu%7Chttps%3A%2F%2Fevil.com/x.pptx",
        "ms-visio:ofe|u|https://evil.com/x.vsdx",
        "ms-officecmd:{\"a\":\"https://evil.com/\"}",
        "search-ms:query=x&crumb=location:\\\\evil.com\\share&displayname=y",
        "search:query=x&crumb=location:%5C%5Cevil.com@SSL@443%5Cshare",
        "mhtml:https://evil.com/x.mht!x",
        "view-source:https://evil.com/",
        "feed:https://evil.com/rss",
        "feed://evil.com/rss",
        "webcal://evil.com/x.ics",
        "data:text/html,<a href=https://evil.com/>x</a>",
        "data:text/html;base64,PGEgaHJlZj1odHRwczovL2V2aWwuY29tLz54PC9hPg==",
        "data:image/svg+xml;base64,PHN2Zz48YSB4bGluazpocmVmPSJodHRwczovL2V2aWwuY29tLyI+PC9hPjwvc3ZnPg==",
        "javascript:location='https://evil.com/'",
        "file://evil.com/share/x",
        "file:////evil.com/share/x",
        "file:\\\\evil.com\\share",
        "\\\\evil.com\\share",
        "ftp://evil.com/x",
        "intent://evil.com/#Intent;scheme=https;end",
        "googlechrome://navigate?url=https://evil.com",
        "microsoft-edge:https://evil.com",
        "ms-appinstaller:?source=https://evil.com/x.appx",
    ];
    let links = targets.map(|t| format!("<a href=\"{}\">x</a>", t.replace('"', "&quot;")));
    all_blocked(html, &links.each_ref().map(String::as_str));
}

#[test]
fn in_charsets_that_browsers_do_not_read() {
    let text = "Hello https://evil.com/x bye\n";
    let utf32 = |order: fn(u32) -> [u8; 4]| -> Vec<u8> {
        text.chars().flat_map(|c| order(c as u32)).collect()
    };
    let utf16 =
        |order: fn(u16) -> [u8; 2]| -> Vec<u8> { text.encode_utf16().flat_map(order).collect() };
    let cases = [
        ("utf-32", utf32(u32::to_be_bytes)),
        ("utf-32", utf32(u32::to_le_bytes)),
        ("utf-32le", utf32(u32::to_le_bytes)),
        ("utf-32be", utf32(u32::to_be_bytes)),
        ("utf-32", [vec![0xff, 0xfe, 0, 0], utf32(u32::to_le_bytes)].concat()),
        ("utf-16", utf16(u16::to_be_bytes)),
        ("utf-16", utf16(u16::to_le_bytes)),
        ("us-ascii", [vec![0xfe, 0xff], utf16(u16::to_be_bytes)].concat()),
        ("utf-7", b"Hello +AGgAdAB0AHAAcwA6AC8ALwBlAHYAaQBsAC4AYwBvAG0ALw- bye".to_vec()),
        ("iso-2022-kr", b"\x1b$)C\nHello \x0e0!\x0f https://evil.com/x bye\n".to_vec()),
        ("hz-gb-2312", b"~{VPND~} https://evil.com/x bye\n".to_vec()),
        ("hz-gb-2312", b"~{VPND~} https://ev~\nil.com/x bye\n".to_vec()),
        ("hz", b"https://ev~\r\nil.com/x bye\n".to_vec()),
    ];
    let snapshot = snapshot();
    for kind in ["text/plain", "text/html"] {
        for (label, bytes) in &cases {
            let raw = encoded(kind, label, bytes);
            assert!(judge(&raw, &snapshot).hit("BLOCK_URL").is_some(), "{kind} {label}");
        }
        for label in ["ibm037", "cp500", "iso-2022-cn", "scsu"] {
            let verdict = judge(&encoded(kind, label, b"\xc8\x85\x93\x93\x96"), &snapshot);
            assert_eq!(verdict.class, Class::Unscannable, "{label}");
        }
    }
}

/// A message of one part in base64.
fn encoded(kind: &str, charset: &str, bytes: &[u8]) -> Vec<u8> {
    let body = base64_simd::STANDARD.encode_to_string(bytes);
    format!(
        "{HEAD}Content-Type: {kind}; charset={charset}\nContent-Transfer-Encoding: base64\n\n{body}\n"
    )
    .into_bytes()
}

#[test]
fn any_author_and_the_subject_count() {
    let snapshot = snapshot();
    let two = HEAD.replace("From: a@", "From: x@good.example, y@evil.com, a@");
    let again = format!("{HEAD}From: y@evil.com\n");
    for head in [two, again] {
        assert!(judge(format!("{head}\nx\n").as_bytes(), &snapshot).hit("BLOCK_SENDER").is_some());
    }
    let subject = HEAD.replace("Subject: x", "Subject: =?utf-8?q?evil=E3=80=82com/x?=");
    assert!(judge(format!("{subject}\nx\n").as_bytes(), &snapshot).hit("BLOCK_URL").is_some());
}

#[test]
fn honest_mail_is_not_blocked_and_evidence_points_into_the_text() {
    let snapshot = snapshot();
    for body in [
        "<a href='https://good.example/?u=https%3A%2F%2Ffine.example'>x</a>",
        "<a href='mailto:a@good.example?subject=x'>x</a> 12:30 a=b c:\\d",
        "<p class='evil.com' title='https://evil.com/'>x</p><!-- https://evil.com/ -->",
        "<a href='https://notevil.com/evil.community'>x</a>",
    ] {
        let verdict = judge(&html(body), &snapshot);
        assert!(verdict.hit("BLOCK_URL").is_none(), "{body}: {:?}", verdict.hits);
    }
    let raw = plain("see \u{200b}https://ev\u{200b}il.com/x");
    let verdict = judge(&raw, &snapshot);
    let at = &verdict.hit("BLOCK_URL").unwrap().evidence[0];
    let message = Message::parse(&raw);
    let text = message.parts()[0].text().unwrap();
    let range = at.offset as usize..(at.offset + at.length) as usize;
    assert_eq!(&text[range], "https://ev\u{200b}il.com/x");
}

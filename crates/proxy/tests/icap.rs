//! The ICAP service, by bytes.

use std::sync::Arc;

use gauntlet_proxy::Parts;
use gauntlet_proxy::access_log::{AccessRecord, Outcome};
use gauntlet_proxy::judge::AllowAll;
use gauntlet_proxy::settings::Settings;
use tokio::io::AsyncWriteExt;

use crate::common::{Origin, PATIENCE, Proxy, by_lists, read_all, read_until, text, until};
use crate::icap_client::{ByPath, Icap, Message, read_head, settings};
use crate::judging::list;

/// The field of an answer.
fn field<'a>(answer: &'a str, name: &str) -> &'a str {
    let prefix = format!("{name}: ");
    let line = answer.lines().find_map(|line| line.strip_prefix(prefix.as_str()));
    line.unwrap_or_else(|| panic!("{name} in {answer}"))
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n";

#[tokio::test]
async fn options_say_what_a_service_can() {
    let icap = Icap::judged(AllowAll).await;
    for (path, methods) in [("reqmod", "REQMOD"), ("respmod", "RESPMOD"), ("av", "REQMOD, RESPMOD")]
    {
        let line = format!("OPTIONS icap://127.0.0.1/{path} ICAP/1.0\r\n");
        let answer = icap.talk(format!("{line}Host: h\r\nConnection: close\r\n\r\n")).await;
        assert!(answer.starts_with("ICAP/1.0 200 OK\r\n"), "{answer}");
        for (name, value) in [
            ("Methods", methods),
            ("Preview", "1024"),
            ("Transfer-Preview", "*"),
            ("Allow", "204, trailers"),
            ("Max-Connections", "1000"),
            ("Options-TTL", "600"),
            ("Encapsulated", "null-body=0"),
        ] {
            assert_eq!(field(&answer, name), value, "{answer}");
        }
        assert!(answer.ends_with("\r\n\r\n"));
    }
    assert_eq!(icap.counters.options.get(), 3);
}

#[tokio::test]
async fn the_istag_changes_with_the_lists_and_with_nothing_else() {
    let judge = Arc::new(by_lists(list("a", "blocked.example\n")));
    let icap = Icap::with(settings(), judge.clone()).await;
    let first = icap.ask(&Message::get("/")).await;
    let second = icap.ask(&Message::get("/other")).await;
    judge.replace_lists(list("a", "other.example\n"));
    let third = icap.ask(&Message::get("/")).await;
    assert_eq!(field(&first, "ISTag"), field(&second, "ISTag"));
    assert_ne!(field(&first, "ISTag"), field(&third, "ISTag"));
    assert!(field(&first, "ISTag").len() <= 34, "{first}");
}

#[tokio::test]
async fn a_url_is_judged_as_the_proxy_judges_it() {
    let origin = Origin::start(|_| async { text("a page") }).await;
    let host = origin.address.to_string();
    let lists = format!("blocked.example\n{host}/secret\n");
    let icap = Icap::judged(by_lists(list("l", &lists))).await;
    let judge = Arc::new(by_lists(list("l", &lists)));
    let settings = Settings {
        connect_ports: Settings::default().connect_ports,
        plain_ports: Settings::default().plain_ports,
        ..crate::common::settings()
    };
    let proxy = Proxy::with(settings, Parts { judge, ..Parts::default() }).await;
    for (line, host, is_blocked) in [
        ("GET http://blocked.example/", "blocked.example", true),
        ("GET http://www.Blocked.example./x", "www.blocked.example", true),
        ("GET http://blocked.example:8080/", "blocked.example:8080", true),
        ("CONNECT www.blocked.example:443", "www.blocked.example:443", true),
        (&format!("GET http://{host}/secret?x"), &host, true),
        (&format!("GET http://{host}/%73ecret/"), &host, true),
        (&format!("GET http://{host}/secrets"), &host, false),
        (&format!("GET http://{host}/"), &host, false),
    ] {
        let head = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let request = format!(
            "REQMOD icap://h/reqmod ICAP/1.0\r\nConnection: close\r\nAllow: 204\r\n\
             Encapsulated: req-hdr=0, null-body={}\r\n\r\n{head}",
            head.len()
        );
        let (by_icap, by_proxy) = (icap.talk(request).await, proxy.talk(head).await);
        let blocked = "details=\"blocked\"";
        assert_eq!(by_proxy.contains(blocked), is_blocked, "{line}: {by_proxy}");
        assert_eq!(by_icap.contains(blocked), is_blocked, "{line}: {by_icap}");
        assert_eq!(by_icap.starts_with("ICAP/1.0 204 "), !is_blocked, "{line}: {by_icap}");
    }
}

#[tokio::test]
async fn what_passes_is_204_or_comes_back_byte_for_byte() {
    let icap = Icap::judged(ByPath).await;
    let get = Message::get("/");
    let answer = icap.ask(&get.clone().field("Allow: 204")).await;
    assert!(answer.starts_with("ICAP/1.0 204 No Content\r\n"), "{answer}");
    assert_eq!(field(&answer, "Encapsulated"), "null-body=0");
    let answer = icap.ask(&get).await;
    assert!(answer.starts_with("ICAP/1.0 200 OK\r\n"), "{answer}");
    assert_eq!(field(&answer, "Encapsulated"), "req-hdr=0, null-body=57");
    let head = "\r\n\r\nGET http://site.example/ HTTP/1.1\r\nHost: site.example\r\n\r\n";
    assert!(answer.ends_with(head), "{answer}");
    let post = Message::reqmod("POST /form HTTP/1.1", "X-MiXed:  a\r\nContent-Length: 5\r\n");
    let answer = icap.ask(&post.clone().body("2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n")).await;
    let head =
        "POST /form HTTP/1.1\r\nHost: site.example\r\nX-MiXed:  a\r\nContent-Length: 5\r\n\r\n";
    let expected = format!("\r\n\r\n{head}2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n");
    assert!(answer.ends_with(&expected), "{answer}");
    // A preview may be answered by 204 without Allow, and a body outside of one with it.
    for (field, body) in [
        ("Preview: 0", "0\r\n\r\n"),
        ("Preview: 3", "3\r\nabc\r\n0\r\n\r\n"),
        ("Preview: 9", "5\r\nabcde\r\n0; ieof\r\n\r\n"),
        ("Allow: 204", "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"),
    ] {
        for message in [post.clone(), Message::respmod("/", OK)] {
            let answer = icap.ask(&message.field(field).body(body)).await;
            assert!(answer.starts_with("ICAP/1.0 204 "), "{field}: {answer}");
        }
    }
    assert_eq!((icap.counters.unmodified.get(), icap.counters.echoed.get()), (9, 2));
}

#[tokio::test]
async fn what_is_blocked_is_the_page_of_the_proxy() {
    let icap = Icap::judged(ByPath).await;
    let html = "Accept: text/html\r\n";
    let get = Message::reqmod("GET http://site.example/bad HTTP/1.1", html);
    let answer = icap.ask(&get.field("X-Client-IP: 192.0.2.7").field("Allow: 204")).await;
    assert!(answer.starts_with("ICAP/1.0 200 OK\r\n"), "{answer}");
    let record = until(|| icap.log.all().first().cloned()).await;
    for part in [
        "\r\n\r\nHTTP/1.1 403 Forbidden\r\n",
        "content-type: text/html; charset=utf-8\r\n",
        "details=\"blocked\"",
        "<dd>192.0.2.7</dd>",
        "<dd>words</dd>",
        record.reference.as_str(),
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    let head = answer.split("\r\n\r\n").nth(1).unwrap().len() + 4;
    assert_eq!(field(&answer, "Encapsulated"), format!("res-hdr=0, res-body={head}"));
    assert!(answer.ends_with("\r\n0\r\n\r\n"));
    assert_eq!((record.status, record.outcome), (403, Outcome::Denied));
    assert!(record.squid().contains("192.0.2.7 TCP_DENIED/403 "), "{}", record.squid());

    let answer = icap.ask(&Message::reqmod("HEAD http://site.example/bad HTTP/1.1", "")).await;
    assert!(answer.contains("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(field(&answer, "Encapsulated").contains("null-body="), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"));

    // RESPMOD alone blocks addresses, too, and by what the response says.
    let chunks = "9\r\nsome text\r\n0\r\n\r\n";
    for (path, head) in [("/bad", OK), ("/", "HTTP/1.1 200 OK\r\nConnection: x\r\nX-Bad: 1\r\n")] {
        for field in ["X-None: 1", "Allow: 204", "Preview: 9"] {
            let message = Message::respmod(path, head).field(field).body(chunks);
            let answer = icap.ask(&message).await;
            assert!(answer.contains("\r\n\r\nHTTP/1.1 403 Forbidden\r\n"), "{answer}");
            assert!(answer.contains("It has a bad word."), "{answer}");
        }
    }
    let answer = icap.ask(&Message::get("/moved")).await;
    assert!(
        answer.contains("\r\n\r\nHTTP/1.1 302 Found\r\nlocation: http://elsewhere.example/\r\n")
    );
    assert_eq!(icap.counters.blocked.get(), 8);
    assert_eq!(icap.counters.satisfied.get(), 9);
}

#[tokio::test]
async fn an_inspector_gets_the_whole_body_past_the_preview() {
    let icap = Icap::judged(ByPath).await;
    for (rest, blocked) in [("some bad word", true), ("some good one", false)] {
        for message in [
            Message::respmod("/whole", "HTTP/1.1 200 OK\r\n"),
            Message::reqmod("POST http://site.example/upload HTTP/1.1", ""),
        ] {
            let mut stream = icap.connect().await;
            let message = message.field("Preview: 4").body("4\r\nhead\r\n0\r\n\r\n");
            stream.write_all(message.last().as_bytes()).await.unwrap();
            assert_eq!(read_head(&mut stream).await, "ICAP/1.0 100 Continue\r\n\r\n");
            let rest = format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len());
            stream.write_all(rest.as_bytes()).await.unwrap();
            let answer = read_all(&mut stream).await;
            assert!(answer.starts_with("ICAP/1.0 200 OK\r\n"), "{answer}");
            assert_eq!(answer.contains("HTTP/1.1 403 Forbidden\r\n"), blocked, "{answer}");
            let end = "\r\n\r\n11\r\nheadsome good one\r\n0\r\n\r\n";
            assert_eq!(answer.ends_with(end), !blocked, "{answer}");
        }
    }
    assert_eq!(icap.counters.continued.get(), 4);
    // All of it within the preview: nothing is sent back.
    let message = Message::respmod("/whole", OK).field("Preview: 20");
    let answer = icap.ask(&message.clone().body("9\r\nsome text\r\n0; ieof\r\n\r\n")).await;
    assert!(answer.starts_with("ICAP/1.0 204 "), "{answer}");
    let answer = icap.ask(&message.body("8\r\nbad text\r\n0; ieof\r\n\r\n")).await;
    assert!(answer.contains("HTTP/1.1 403 "), "{answer}");
    // With a copy of its own, the client needs none.
    let message = Message::respmod("/whole", OK).field("Allow: 204");
    let answer = icap.ask(&message.body("9\r\nsome text\r\n0\r\n\r\n")).await;
    assert!(answer.starts_with("ICAP/1.0 204 "), "{answer}");
}

#[tokio::test]
async fn a_body_in_a_transfer_coding_that_nobody_undoes_is_refused() {
    let icap = Icap::judged(ByPath).await;
    for (coding, status) in
        [("gzip, chunked", "502"), ("gzip", "502"), ("chunked", "204"), ("identity", "204")]
    {
        let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n");
        let message = Message::respmod("/", &head).field("Allow: 204").body("1\r\na\r\n0\r\n\r\n");
        let answer = icap.ask(&message).await;
        assert!(
            answer.contains(&format!("/1.{} {status} ", u8::from(status == "502"))),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_malformed_is_in_the_log() {
    let icap = Icap::judged(ByPath).await;
    for field in ["X-None: 1", "Preview: 4"] {
        let answer = icap.ask(&Message::respmod("/", OK).field(field).body("zz\r\n")).await;
        assert!(answer.starts_with("ICAP/1.0 400 "), "{answer}");
    }
    let records = until(|| Some(icap.log.all()).filter(|all| all.len() == 2)).await;
    for record in records {
        let end = (record.status, record.outcome, record.refusal);
        assert_eq!(end, (400, Outcome::Failed, Some("malformed")));
        assert_eq!(record.notes.len(), 1, "{record:?}");
    }
}

#[tokio::test]
async fn bodies_stream_and_what_turns_bad_is_cut() {
    let icap = Icap::judged(ByPath).await;
    for (path, fields) in [("/", "X-None: 1"), ("/stream", "Preview: 0"), ("/stream", "X-None: 1")]
    {
        let mut stream = icap.connect().await;
        let message = Message::respmod(path, "HTTP/1.1 200 OK\r\n").field(fields);
        let has_preview = fields.starts_with("Preview");
        let body = if has_preview { "0\r\n\r\n" } else { "" };
        stream.write_all(message.body(body).bytes().as_bytes()).await.unwrap();
        if has_preview {
            assert_eq!(read_head(&mut stream).await, "ICAP/1.0 100 Continue\r\n\r\n");
        }
        for word in ["one ", "two "] {
            stream.write_all(format!("4\r\n{word}\r\n").as_bytes()).await.unwrap();
            read_until(&mut stream, &format!("4\r\n{word}\r\n")).await;
        }
        stream.write_all(b"3\r\nbad\r\n").await.unwrap();
        if path == "/stream" {
            assert_eq!(read_all(&mut stream).await, "", "no last chunk");
        } else {
            read_until(&mut stream, "3\r\nbad\r\n").await;
            stream.write_all(b"0\r\n\r\n").await.unwrap();
            read_until(&mut stream, "0\r\n\r\n").await;
        }
    }
    assert_eq!(icap.counters.cut.get(), 2);
    let cut = |r: &AccessRecord| (r.outcome, r.refusal) == (Outcome::Aborted, Some("blocked"));
    until(|| (icap.log.all().iter().filter(|r| cut(r)).count() == 2).then_some(())).await;
}

#[tokio::test]
async fn a_preview_that_an_inspector_passes_on_is_followed_by_the_rest() {
    let icap = Icap::judged(ByPath).await;
    let mut stream = icap.connect().await;
    let message = Message::respmod("/stream", OK).field("Preview: 4");
    let bytes = message.body("4\r\nsome\r\n0\r\n\r\n").last();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    assert_eq!(read_head(&mut stream).await, "ICAP/1.0 100 Continue\r\n\r\n");
    stream.write_all(b"5\r\n text\r\n0\r\n\r\n").await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.ends_with("\r\n\r\n4\r\nsome\r\n5\r\n text\r\n0\r\n\r\n"), "{answer}");
    // What is bad in the preview needs no rest.
    let message = Message::respmod("/stream", OK).field("Preview: 4");
    let answer = icap.ask(&message.body("4\r\nbad!\r\n0\r\n\r\n")).await;
    assert!(answer.starts_with("ICAP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\n\r\nHTTP/1.1 403 "), "{answer}");
}

#[tokio::test]
async fn a_length_that_is_no_longer_true_is_left_out() {
    let icap = Icap::judged(ByPath).await;
    let message = Message::respmod("/longer", OK).field("Allow: 204");
    let answer = icap.ask(&message.body("9\r\nsome text\r\n0\r\n\r\n")).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    let expected = format!("\r\n\r\n{head}a\r\nsome text!\r\n0\r\n\r\n");
    assert!(answer.ends_with(&expected), "{answer}");
    assert_eq!(field(&answer, "Encapsulated"), format!("res-hdr=0, res-body={}", head.len()));
    let record = until(|| icap.log.all().first().cloned()).await;
    assert_eq!((record.status, record.outcome), (200, Outcome::Passed));
    assert_eq!((icap.counters.changed.get(), icap.counters.echoed.get()), (1, 0));
}

#[tokio::test]
async fn what_is_too_large_to_be_held_is_not_passed() {
    let mut settings = settings();
    settings.limits.held_bytes_max = 8;
    let icap = Icap::with(settings, Arc::new(ByPath)).await;
    let message = Message::respmod("/whole", OK);
    let answer = icap.ask(&message.body("9\r\nsome text\r\n9\r\nand so on\r\n0\r\n\r\n")).await;
    assert!(answer.contains("\r\n\r\nHTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains("too_large_to_inspect"), "{answer}");
}

#[tokio::test]
async fn requests_may_come_one_behind_the_other() {
    let icap = Icap::judged(ByPath).await;
    let chunks = "3\r\nabc\r\n0\r\n\r\n";
    let post = Message::reqmod("POST http://site.example/ HTTP/1.1", "");
    let all = [
        post.clone().body(chunks).bytes(),
        // The rest of a body that was not needed is passed over.
        Message::respmod("/bad", OK).body(chunks).bytes(),
        post.clone().body(chunks).field("Allow: 204").bytes(),
        post.body(chunks).field("Preview: 3").bytes(),
        "\r\nOPTIONS icap://h/reqmod ICAP/1.0\r\nHost: h\r\n\r\n".to_owned(),
        Message::get("/").last(),
    ];
    let answer = icap.talk(all.concat()).await;
    let status: Vec<&str> =
        answer.lines().filter_map(|line| line.split("ICAP/1.0 ").nth(1)).map(|s| &s[..3]).collect();
    assert_eq!(status, ["200", "200", "204", "204", "200", "200"], "{answer}");
    assert_eq!(icap.counters.connections.get(), 1);
    assert_eq!(icap.counters.errors.get(), 0);
}

#[tokio::test]
async fn trailers_pass_where_they_are_announced() {
    let icap = Icap::judged(AllowAll).await;
    let message = Message::respmod("/", OK).body("1\r\na\r\n0\r\nX-Sum: 7\r\nX-Two: 2\r\n\r\n");
    let answer = icap.ask(&message.clone().field("Allow: trailers").field("Trailer: X-Sum")).await;
    assert_eq!(field(&answer, "Trailer"), "X-Sum");
    assert!(answer.ends_with("1\r\na\r\n0\r\nx-sum: 7\r\n\r\n"), "{answer}");
    let answer = icap.ask(&message.field("Trailer: X-Sum")).await;
    assert!(answer.ends_with("1\r\na\r\n0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn who_asks_is_believed_of_trusted_clients_alone() {
    let message = Message::get("/")
        .field("X-Client-IP: 2001:db8::7")
        .field("X-Client-Username: ann")
        .field("Allow: 204");
    for (trusted, client, user) in
        [("127.0.0.0/8", "2001:db8::7", Some("ann")), ("192.0.2.0/24", "127.0.0.1", None)]
    {
        let mut settings = settings();
        settings.icap.trusted_networks = vec![trusted.to_owned()];
        let icap = Icap::with(settings, Arc::new(AllowAll)).await;
        icap.ask(&message).await;
        let record = until(|| icap.log.all().first().cloned()).await;
        assert_eq!((record.client.to_string().as_str(), record.user.as_deref()), (client, user));
        let name = user.unwrap_or("-");
        let end = format!("{client} ICAP_ECHO/000 0 GET http://site.example/ {name} HIER_NONE/- -");
        assert!(record.squid().ends_with(&end), "{}", record.squid());
    }
}

#[tokio::test]
async fn errors_have_the_status_of_the_rfc() {
    let mut settings = settings();
    settings.icap.any_path = false;
    let icap = Icap::with(settings, Arc::new(AllowAll)).await;
    let get = Message::get("/").bytes();
    for (request, status) in [
        (get.replace("/reqmod ", "/other "), "404 Service Not Found"),
        (get.replace("/reqmod ", "/respmod "), "405 Method Not Allowed For Service"),
        (get.replace("REQMOD ", "FILEMOD "), "501 Method Not Implemented"),
        (get.replace("ICAP/1.0\r\nHost", "ICAP/1.1\r\nHost"), "505 ICAP Version Not Supported"),
        (get.replace("Encapsulated", "X-Encapsulated"), "400 Bad Request"),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), "400 Bad Request"),
    ] {
        let answer = icap.talk(request).await;
        assert!(answer.starts_with(&format!("ICAP/1.0 {status}\r\n")), "{status}: {answer}");
        assert_eq!(field(&answer, "Connection"), "close");
    }
    assert_eq!(icap.counters.errors.get(), 6);
}

#[tokio::test]
async fn connections_and_times_are_bounded() {
    let mut settings = settings();
    settings.icap.connections_max = 1;
    settings.icap.header_seconds_max = 1;
    settings.icap.idle_seconds_max = 1;
    settings.icap.keep_alive_seconds_max = 1;
    let icap = Icap::with(settings, Arc::new(AllowAll)).await;
    let mut first = icap.connect().await;
    first.write_all(b"REQMOD icap://h/reqmod").await.unwrap();
    let answer = icap.talk("").await;
    assert!(answer.starts_with("ICAP/1.0 503 Service Overloaded\r\n"), "{answer}");
    let answer = read_all(&mut first).await;
    assert!(answer.starts_with("ICAP/1.0 408 Request Timeout\r\n"), "{answer}");
    drop(first);
    until(|| (icap.counters.connections_now.get() == 0).then_some(())).await;
    // A body that stops, and a connection that nobody uses.
    let mut second = icap.connect().await;
    let message = Message::respmod("/", OK).body("9\r\nsome");
    second.write_all(message.bytes().as_bytes()).await.unwrap();
    let answer = read_all(&mut second).await;
    assert!(answer.ends_with("\r\n\r\n4\r\nsome\r\n"), "{answer}");
    assert_eq!(icap.counters.stalled.get(), 1);
    until(|| (icap.counters.connections_now.get() == 0).then_some(())).await;
    let mut third = icap.connect().await;
    third.write_all(Message::get("/").field("Allow: 204").bytes().as_bytes()).await.unwrap();
    assert!(read_all(&mut third).await.starts_with("ICAP/1.0 204 "));
}

#[tokio::test]
async fn a_stop_lets_a_request_end() {
    let mut icap = Icap::judged(AllowAll).await;
    let (mut idle, mut busy) = (icap.connect().await, icap.connect().await);
    busy.write_all(Message::respmod("/", OK).body("4\r\nsome\r\n").bytes().as_bytes())
        .await
        .unwrap();
    read_until(&mut busy, "4\r\nsome\r\n").await;
    let stopped = icap.stop();
    assert_eq!(read_all(&mut idle).await, "");
    busy.write_all(b"5\r\n text\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(read_all(&mut busy).await, "5\r\n text\r\n0\r\n\r\n");
    tokio::time::timeout(PATIENCE, stopped).await.unwrap().unwrap();
}

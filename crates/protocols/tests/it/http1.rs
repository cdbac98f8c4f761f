//! HTTP/1 as rules see it.

use std::sync::Arc;

use gauntlet_packet::Direction::{self, ToClient, ToServer};
use gauntlet_protocols::{
    Buffer, Carrier, Conversation, Event, FileState, Flow, Orders, Protocol, Settings,
};

fn conversation(set: &[(&str, &str)]) -> Conversation {
    let mut settings = Settings::default();
    for (name, value) in set {
        let key = format!("app-layer.protocols.http.libhtp.default-config.{name}");
        assert!(settings.set(&key, value), "{name} is a setting");
    }
    let flow = Flow { carrier: Carrier::Tcp, ports: (40_000, 80), midstream: false, inline: false };
    Conversation::new(Arc::new(settings), flow)
}

fn text(conversation: &Conversation, name: &str, way: Direction) -> Option<String> {
    let buffer = Buffer::of_keyword(name).unwrap_or_else(|| panic!("{name} is a buffer"));
    let bytes = conversation.buffer(0, buffer, way, 0)?;
    Some(String::from_utf8_lossy(&bytes.data).into_owned())
}

fn uri(settings: &[(&str, &str)], uri: &str) -> Option<String> {
    let mut flow = conversation(settings);
    flow.data(ToServer, format!("GET {uri} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), false);
    text(&flow, "http.uri", ToServer)
}

fn events(conversation: &Conversation, place: usize) -> Vec<&'static str> {
    let state = conversation.state(place).expect("there is such a transaction");
    let of = |number: &u8| Event { protocol: Protocol::Http1, number: *number }.name();
    state.events.iter().map(of).collect()
}

#[test]
fn an_exchange_has_its_buffers() {
    let mut flow = conversation(&[]);
    let request = b"GET /a/../b%20c?x=%41 HTTP/1.1\r\nHost: Example.COM:8080\r\nUser-Agent: me\r\n\
        X-Folded: one\r\n two\r\nCookie: k=v\r\nAccept: */*\r\nAccept: text/html\r\n\r\n";
    flow.data(ToServer, request, false);
    let cases = [
        ("http.uri", "/b c?x=A"),
        ("http.uri.raw", "/a/../b%20c?x=%41"),
        ("http.method", "GET"),
        ("http.protocol", "HTTP/1.1"),
        ("http.request_line", "GET /a/../b%20c?x=%41 HTTP/1.1"),
        ("http.host", "example.com"),
        ("http.host.raw", "Example.COM:8080"),
        ("http.user_agent", "me"),
        ("http.cookie", "k=v"),
        ("http.accept", "*/*, text/html"),
        ("http.header_names", "\r\nHost\r\nUser-Agent\r\nX-Folded\r\nCookie\r\nAccept\r\n\r\n"),
    ];
    for (name, expected) in cases {
        assert_eq!(text(&flow, name, ToServer).as_deref(), Some(expected), "{name}");
    }
    let header = text(&flow, "http.header", ToServer).expect("there is a header");
    assert!(header.contains("X-Folded: one two\r\n") && !header.contains("Cookie"), "{header}");
    let raw = text(&flow, "http_raw_header", ToServer).expect("there is a raw header");
    assert_eq!(raw.as_bytes(), &request[request.len() - raw.len()..]);
    assert!(raw.starts_with("Host: Example.COM"), "{raw}");

    flow.data(ToClient, b"HTTP/1.1 200 Fine\r\nServer: s\r\nContent-Length: 2\r\n\r\nok", false);
    assert_eq!(text(&flow, "http.stat_code", ToClient).as_deref(), Some("200"));
    assert_eq!(text(&flow, "http.stat_msg", ToClient).as_deref(), Some("Fine"));
    assert_eq!(text(&flow, "http.server", ToClient).as_deref(), Some("s"));
    assert_eq!(text(&flow, "file.data", ToClient).as_deref(), Some("ok"));
    let state = flow.state(0).expect("one transaction");
    assert_eq!(state.progress, [5, 5]);
    let file = &state.files[1][0];
    assert_eq!(
        (file.name.as_slice(), file.size, file.state),
        (b"/b c".as_slice(), 2, FileState::Closed)
    );
    assert_eq!(flow.protocol(), Some(Protocol::Http1));
}

#[test]
fn uris_are_normalised_as_settings_say() {
    type Case = (&'static [(&'static str, &'static str)], &'static str, &'static str);
    let cases: [Case; 12] = [
        (&[], "/a//b", "/a/b"),
        (&[], "/a%2fb", "/a/b"),
        (&[], "/a\\b", "/a/b"),
        (&[], "/%u0041", "/A"),
        (&[], "/%zz", "/%zz"),
        (&[], "/a/./b/../../c", "/c"),
        (&[], "/%c3%a9", "/\u{fffd}"),
        (&[], "/a%252fb", "/a%2fb"),
        (&[("double-decode-path", "yes")], "/a%252fb", "/a/b"),
        (&[("path-convert-lowercase", "yes")], "/ABC", "/abc"),
        (&[("query-plusspace-decode", "yes")], "/?a+b", "/?a b"),
        (&[("personality", "Apache_2")], "/a%2fb", "/a%2fb"),
    ];
    for (settings, sent, expected) in cases {
        assert_eq!(uri(settings, sent).as_deref(), Some(expected), "{sent} with {settings:?}");
    }
    let all = [("uri-include-all", "yes")];
    let full = uri(&all, "http://User@Host.Example./x?q");
    assert_eq!(full.as_deref(), Some("http://User:@host.example/x?q"));
}

#[test]
fn pieces_do_not_matter() {
    let request =
        b"POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: 1\r\n 2\r\n\r\n\
        5\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: t\r\n\r\nGET /next HTTP/1.0\r\n\r\n";
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.0 404 No\r\n\r\nrest";
    let run = |sizes: &[usize]| {
        let mut flow = conversation(&[]);
        for (way, mut bytes) in [(ToServer, request.as_slice()), (ToClient, response)] {
            let mut sizes = sizes.iter().cycle();
            while !bytes.is_empty() {
                let (piece, rest) = bytes.split_at((*sizes.next().unwrap()).min(bytes.len()));
                flow.data(way, piece, false);
                bytes = rest;
            }
        }
        flow.data(ToServer, &[], true);
        flow.data(ToClient, &[], true);
        let of = |place: usize| {
            let state = flow.state(place).expect("two transactions");
            let files: Vec<_> = state
                .files
                .iter()
                .flatten()
                .map(|file| (file.name.clone(), file.size, file.state, file.sha256))
                .collect();
            (state.progress, files)
        };
        let header = text(&flow, "http.header", ToServer);
        (flow.count(), of(0), of(1), header)
    };
    let whole = run(&[10_000]);
    assert_eq!(whole.0, 2);
    assert_eq!(whole.1.1[0].1, 11);
    for size in 1..60 {
        assert_eq!(run(&[size]), whole, "pieces of {size}");
        assert_eq!(run(&[size, 1, 7]), whole, "pieces of {size}, 1, 7");
    }
}

#[test]
fn oddities_become_events() {
    let cases: [(&str, &str, &str); 12] = [
        ("GET / HTTP/1.1\r\n\r\n", "", "missing_host_header"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "", "request_header_repetition"),
        ("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", "", "host_header_ambiguous"),
        ("GET / HTTP/1.1\r\nHost: a..b\r\n\r\n", "", "request_header_host_invalid"),
        ("GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n", "", "request_field_missing_colon"),
        ("GET / HTTP/1.1\r\nHost: a\r\nname : v\r\n\r\n", "", "request_invalid_lws_after_name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", "", "request_field_missing_colon"),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "", "method_delim_non_compliant"),
        ("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\n\r\n", "", "request_auth_unrecognized"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "response_line_invalid_response_status",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "invalid_response_chunk_len",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "response_chunked_old_proto",
        ),
    ];
    for (request, response, expected) in cases {
        let mut flow = conversation(&[]);
        flow.data(ToServer, request.as_bytes(), false);
        if !response.is_empty() {
            flow.data(ToClient, response.as_bytes(), false);
        }
        let seen = events(&flow, 0);
        assert!(seen.contains(&expected), "{request:?}: {seen:?} without {expected}");
        assert!(Event::of_name(&format!("http.{expected}")).is_some());
    }
}

#[test]
fn uploads_in_parts_are_files() {
    let mut flow = conversation(&[]);
    let body = "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nvalue\r\n--b\r\n\
        Content-Disposition: form-data; name=\"f\"; filename=\"a b.txt\"\r\n\r\nfirst\r\nline\r\n\
        --b--\r\n";
    let head = format!(
        "POST /f HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n\
        Content-Length: {}\r\n\r\n",
        body.len()
    );
    flow.data(ToServer, head.as_bytes(), false);
    for piece in body.as_bytes().chunks(7) {
        flow.data(ToServer, piece, false);
    }
    let files = flow.state(0).expect("one transaction").files(ToServer);
    let seen: Vec<_> =
        files.iter().map(|file| (file.name.as_slice(), file.size, file.state)).collect();
    assert_eq!(seen, [(b"a b.txt".as_slice(), 11, FileState::Closed)]);
}

#[test]
fn bodies_are_looked_at_in_windows() {
    let mut flow = conversation(&[]);
    flow.data(ToServer, b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n", false);
    flow.data(ToClient, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", false);
    let buffer = Buffer::of_keyword("file_data").expect("it is a buffer");
    let piece = [b'x'; 1000];
    for _ in 0..40 {
        flow.data(ToClient, &piece, false);
        assert!(flow.buffer(0, buffer, ToClient, 0).is_none(), "it waits for 40 KiB");
    }
    flow.data(ToClient, &piece, false);
    let window = flow.buffer(0, buffer, ToClient, 0).expect("there is enough now");
    assert_eq!((window.offset, window.data.len(), window.end), (0, 41_000, false));
    flow.inspected(0, ToClient);
    flow.clean(ToClient);
    flow.data(ToClient, &piece, false);
    let window = flow.buffer(0, buffer, ToClient, 0).expect("new data is there");
    // A window of 16 KiB that ends with the new data.
    assert_eq!(window.offset + window.data.len() as u64, 42_000);
    assert_eq!(window.data.len(), 16 * 1024);
}

#[test]
fn compressed_bodies_are_decoded_and_bombs_end() {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let chunk = vec![0_u8; 1024 * 1024];
    for _ in 0..8 {
        encoder.write_all(&chunk).expect("memory takes it");
    }
    let bomb = encoder.finish().expect("memory takes it");
    let mut flow = conversation(&[("response-body-limit", "0"), ("compression-bomb-limit", "1mb")]);
    flow.data(ToServer, b"GET /z HTTP/1.1\r\nHost: a\r\n\r\n", false);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        bomb.len()
    );
    flow.data(ToClient, head.as_bytes(), false);
    for piece in bomb.chunks(1400) {
        flow.data(ToClient, piece, false);
    }
    let size = flow.state(0).expect("one transaction").files(ToClient)[0].size;
    assert!(size >= 1024 * 1024, "{size}");
}

#[test]
fn connect_asks_for_another_protocol() {
    let mut flow = conversation(&[]);
    flow.data(ToServer, b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", false);
    let orders: Orders = flow.data(ToClient, b"HTTP/1.1 200 OK\r\n\r\n", false);
    let change = orders.wishes.change.expect("the protocol changes");
    assert_eq!((change.expect, change.port), (None, Some(443)));
    // HTTP within the tunnel is HTTP again, with transactions of its own.
    flow.data(ToServer, b"GET /inner HTTP/1.1\r\nHost: b\r\n\r\n", false);
    assert_eq!(text(&flow, "http.uri", ToServer).as_deref(), Some("/inner"));
    assert_eq!(flow.count(), 1);
}

#[test]
fn gaps_in_bodies_are_told() {
    let mut flow = conversation(&[]);
    flow.data(ToServer, b"GET /g HTTP/1.1\r\nHost: a\r\n\r\n", false);
    flow.data(ToClient, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", false);
    flow.gap(ToClient, 4);
    flow.data(ToClient, b"hij", false);
    let file = &flow.state(0).expect("one transaction").files(ToClient)[0];
    assert_eq!((file.size, file.gaps, file.state), (10, true, FileState::Truncated));
    assert_eq!(flow.progress(0, ToClient), flow.complete(ToClient));
}

#[test]
fn transactions_go_once_they_were_looked_at() {
    let mut flow = conversation(&[]);
    for _ in 0..3 {
        flow.data(ToServer, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", false);
        flow.data(ToClient, b"HTTP/1.1 204 No\r\n\r\n", false);
    }
    flow.data(ToServer, b"GET /last HTTP/1.1\r\n", false);
    for place in 0..flow.count() {
        let state = flow.state_mut(place).expect("it is there");
        state.inspected = [true; 2];
        state.logged = true;
    }
    flow.clean(ToClient);
    assert_eq!(flow.count(), 1);
    assert_eq!(flow.state(0).expect("the last").id, 3);
}

#[test]
fn frames_have_the_bytes_of_requests_and_responses() {
    let settings = Settings { frames: true, ..Settings::default() };
    let flow = Flow { carrier: Carrier::Tcp, ports: (40_000, 80), midstream: false, inline: false };
    let mut flow = Conversation::new(Arc::new(settings), flow);
    let first = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let both = [first.as_slice(), b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    for piece in first.chunks(9) {
        flow.data(ToServer, piece, false);
    }
    flow.data(ToServer, &both[first.len()..], false);
    let seen: Vec<(&str, Vec<u8>)> = flow
        .frames(ToServer)
        .filter_map(|frame| {
            let pieces = frame.look(false, false);
            Some((frame.name, pieces.first()?.data.to_vec()))
        })
        .collect();
    let expected = [("request", first.to_vec()), ("request", both[first.len()..].to_vec())];
    assert_eq!(seen, expected);
    flow.frames_inspected(ToServer);
    flow.data(ToServer, &[], true);
    let left: Vec<_> = flow.frames(ToServer).map(|frame| frame.name).collect();
    assert_eq!(left, ["stream"]);
}

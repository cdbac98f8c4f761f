//! The DNS service against resolvers that the tests play, with what real ones seldom do.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gauntlet_proxy::Parts;
use gauntlet_proxy::access_log::{AccessLog, AccessRecord, Outcome};
use gauntlet_proxy::dns::{DnsCounters, DnsServer};
use gauntlet_proxy::judge::{BlockReason, Decision, Judge};
use gauntlet_proxy::request::WebRequest;
use gauntlet_proxy::settings::{BlockedAnswer, DnsSettings, LoggedQueries, Settings};
use hickory_resolver::proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::opt::EdnsOption;
use hickory_resolver::proto::rr::rdata::svcb::{Alpn, EchConfigList, SvcParamKey, SvcParamValue};
use hickory_resolver::proto::rr::rdata::{A, CNAME, HTTPS, SOA, SVCB, TXT};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::dns_bytes::feed;

const WAIT: Duration = Duration::from_secs(20);

/// Blocks one domain.
struct Blocks;

impl Judge for Blocks {
    fn request(&self, request: &WebRequest) -> Decision {
        assert_eq!((request.method.as_str(), request.port), ("DNS", 0));
        match request.url.registrable_domain() == "evil.example" {
            true => {
                let (rule, text) = ("bad names".to_owned(), "Not here.".to_owned());
                Decision::Block(BlockReason { rule, text })
            }
            false => Decision::Allow,
        }
    }
}

/// Keeps records.
#[derive(Default)]
struct Kept(Mutex<Vec<AccessRecord>>);

impl AccessLog for Kept {
    fn record(&self, record: &AccessRecord) {
        self.0.lock().unwrap().push(record.clone());
    }
}

/// What a played resolver says to a query; nothing if it is silent.
type Play = fn(&Message) -> Vec<Message>;

/// Plays a resolver by UDP and TCP; its address, and the names that it was asked for.
async fn resolver(udp: Play, tcp: Play) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let socket = UdpSocket::bind(address).await.unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&asked);
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        loop {
            let (count, peer) = socket.recv_from(&mut buffer).await.unwrap();
            let query = Message::from_vec(&buffer[..count]).unwrap();
            assert!(query.edns.as_ref().unwrap().options().as_ref().is_empty());
            names.lock().unwrap().push(query.queries[0].name.to_ascii());
            for answer in udp(&query) {
                socket.send_to(&answer.to_vec().unwrap(), peer).await.unwrap();
            }
        }
    });
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let query = read(&mut stream).await;
            for answer in tcp(&query) {
                write(&mut stream, &answer).await;
            }
        }
    });
    (address, asked)
}

async fn read(stream: &mut TcpStream) -> Message {
    let count = stream.read_u16().await.unwrap();
    let mut bytes = vec![0; count.into()];
    stream.read_exact(&mut bytes).await.unwrap();
    Message::from_vec(&bytes).unwrap()
}

async fn write(stream: &mut TcpStream, message: &Message) {
    let bytes = message.to_vec().unwrap();
    stream.write_u16(bytes.len().try_into().unwrap()).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn query(text: &str, kind: RecordType) -> Message {
    let mut query = Message::new(4711, MessageType::Query, OpCode::Query);
    query.metadata.recursion_desired = true;
    query.queries.push(Query::query(name(text), kind));
    query
}

/// The beginning of an answer.
fn reply(query: &Message) -> Message {
    let mut answer = Message::response(query.metadata.id, OpCode::Query);
    answer.metadata.recursion_available = true;
    answer.queries = query.queries.clone();
    answer.edns = Some(Edns::new());
    answer
}

/// Every name has one address.
fn one_address(query: &Message) -> Vec<Message> {
    let mut answer = reply(query);
    let address = RData::A(A(Ipv4Addr::new(192, 0, 2, 1)));
    answer.answers.push(Record::from_rdata(query.queries[0].name.clone(), 300, address));
    vec![answer]
}

fn silent(_: &Message) -> Vec<Message> {
    Vec::new()
}

/// A service that asks a played resolver.
struct Site {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    counters: Arc<DnsCounters>,
    log: Arc<Kept>,
}

impl Site {
    async fn start(udp: Play, tcp: Play, change: impl FnOnce(&mut Settings)) -> Self {
        let (upstream, asked) = resolver(udp, tcp).await;
        let dns = DnsSettings {
            upstream: vec![upstream.to_string()],
            upstream_seconds_max: 1,
            log: LoggedQueries::All,
            ..DnsSettings::default()
        };
        let mut settings = Settings { dns, ..Settings::default() };
        change(&mut settings);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = std::net::UdpSocket::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        let log = Arc::new(Kept::default());
        let parts =
            Parts { judge: Arc::new(Blocks), log: Arc::clone(&log) as _, ..Parts::default() };
        let server = DnsServer::with_sockets(vec![listener], vec![socket], settings, parts);
        let server = server.unwrap();
        let counters = server.counters();
        tokio::spawn(server.run(std::future::pending()));
        Site { address, asked, counters, log }
    }

    async fn ask(&self, query: &Message) -> Message {
        let bytes = self.bytes(&query.to_vec().unwrap()).await.expect("an answer");
        Message::from_vec(&bytes).unwrap()
    }

    /// The answer by UDP to any bytes; none if there is none within a moment.
    async fn bytes(&self, query: &[u8]) -> Option<Vec<u8>> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(query, self.address).await.unwrap();
        let mut buffer = [0; 4096];
        // An answer follows for what has none.
        let probe = query.len() < 12;
        let wait = if probe { Duration::from_millis(300) } else { WAIT };
        let count = timeout(wait, socket.recv(&mut buffer)).await.ok()?.unwrap();
        Some(buffer[..count].to_vec())
    }

    async fn ask_by_tcp(&self, query: &Message) -> Message {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        write(&mut stream, query).await;
        timeout(WAIT, read(&mut stream)).await.unwrap()
    }

    fn records(&self) -> Vec<AccessRecord> {
        self.log.0.lock().unwrap().clone()
    }
}

fn extended_error(answer: &Message) -> String {
    let options = answer.edns.as_ref().unwrap().options().clone();
    let option = options.get(15.into()).expect("an extended error").clone();
    let EdnsOption::Unknown(_, data) = option else { panic!("{option:?}") };
    format!("{} {}", u16::from_be_bytes([data[0], data[1]]), String::from_utf8_lossy(&data[2..]))
}

fn with_edns(mut query: Message) -> Message {
    query.edns = Some(Edns::new());
    query.edns.as_mut().unwrap().set_max_payload(4096);
    query
}

#[tokio::test]
async fn what_a_rule_blocks_does_not_exist_and_nobody_is_asked_for_it() {
    let site = Site::start(one_address, silent, |_| {}).await;
    let asked = with_edns(query("www.EVIL.example.", RecordType::A));
    let answer = site.ask(&asked).await;
    assert_eq!(answer.metadata.id, 4711);
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(answer.queries, asked.queries);
    assert!(answer.answers.is_empty() && matches!(answer.authorities[0].data, RData::SOA(_)));
    assert_eq!(extended_error(&answer), "15 rule bad names: Not here.");
    assert!(site.asked.lock().unwrap().is_empty());
    let plain = site.ask(&query("evil.example.", RecordType::MX)).await;
    assert_eq!((plain.metadata.response_code, plain.edns), (ResponseCode::NXDomain, None));
    let record = site.records().remove(0);
    assert_eq!((record.url.as_str(), record.status), ("dns:www.evil.example?type=A", 3));
    assert_eq!((record.outcome, record.refusal), (Outcome::Denied, Some("blocked")));
    assert_eq!(record.rule.as_deref(), Some("bad names"));
}

#[tokio::test]
async fn a_block_can_have_addresses_or_refuse() {
    let null = |settings: &mut Settings| settings.dns.blocked = BlockedAnswer::Null;
    let site = Site::start(one_address, silent, null).await;
    let answer = site.ask(&query("evil.example.", RecordType::A)).await;
    assert_eq!(answer.answers[0].data.ip_addr().unwrap().to_string(), "0.0.0.0");
    let answer = site.ask(&query("evil.example.", RecordType::TXT)).await;
    let is_nothing = answer.answers.is_empty() && !answer.authorities.is_empty();
    assert!(is_nothing && answer.metadata.response_code == ResponseCode::NoError);

    let address = |settings: &mut Settings| {
        settings.dns.blocked = BlockedAnswer::Address;
        settings.dns.block_addresses = vec!["192.0.2.99".parse().unwrap()];
    };
    let site = Site::start(one_address, silent, address).await;
    let answer = site.ask(&query("evil.example.", RecordType::A)).await;
    assert_eq!(answer.answers[0].data.ip_addr().unwrap().to_string(), "192.0.2.99");
    assert!(site.ask(&query("evil.example.", RecordType::AAAA)).await.answers.is_empty());

    let refused = |settings: &mut Settings| settings.dns.blocked = BlockedAnswer::Refused;
    let site = Site::start(one_address, silent, refused).await;
    let answer = site.ask(&query("evil.example.", RecordType::A)).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
}

#[tokio::test]
async fn what_passes_is_asked_once_and_keeps_the_letters_of_the_client() {
    let site = Site::start(one_address, silent, |_| {}).await;
    for text in ["www.Good.example.", "WWW.good.example.", "_x.www.good.example."] {
        let answer = site.ask(&query(text, RecordType::A)).await;
        assert_eq!(answer.queries[0].name.to_ascii(), text);
        assert_eq!(answer.answers[0].data.ip_addr().unwrap().to_string(), "192.0.2.1");
        assert!(answer.edns.is_none() && answer.answers[0].ttl <= 300);
    }
    // With DNSSEC, another answer may be due.
    let mut with_dnssec = with_edns(query("www.good.example.", RecordType::A));
    with_dnssec.edns.as_mut().unwrap().set_dnssec_ok(true);
    let answer = site.ask(&with_dnssec).await;
    assert!(answer.edns.unwrap().flags().dnssec_ok);
    assert_eq!(site.asked.lock().unwrap().len(), 3);
    assert_eq!(site.counters.cached.get(), 1);
    assert!(site.records().iter().all(|record| record.outcome == Outcome::Passed));
}

#[tokio::test]
async fn an_alias_of_a_blocked_name_is_blocked_from_the_cache_too() {
    let aliased = |query: &Message| {
        let mut answers = one_address(query);
        let alias = RData::CNAME(CNAME(name("tracker.evil.example.")));
        let own = query.queries[0].name.clone();
        answers[0].answers.insert(0, Record::from_rdata(own, 300, alias));
        answers
    };
    let site = Site::start(aliased, silent, |_| {}).await;
    for _ in 0..2 {
        let answer = site.ask(&query("metrics.shop.example.", RecordType::A)).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    }
    assert_eq!(site.counters.cached.get(), 1);
    let record = site.records().remove(0);
    assert_eq!(record.notes, ["it is an alias of tracker.evil.example"]);
}

#[tokio::test]
async fn keys_of_encrypted_client_hello_are_taken_out_if_it_is_wished() {
    let with_ech = |query: &Message| {
        let mut answer = reply(query);
        answer.metadata.authentic_data = true;
        let params = vec![
            (SvcParamKey::Alpn, SvcParamValue::Alpn(Alpn(vec!["h2".to_owned()]))),
            (SvcParamKey::EchConfigList, SvcParamValue::EchConfigList(EchConfigList(vec![7; 40]))),
        ];
        let https = RData::HTTPS(HTTPS(SVCB::new(1, Name::root(), params)));
        answer.answers.push(Record::from_rdata(query.queries[0].name.clone(), 300, https));
        vec![answer]
    };
    for remove in [false, true] {
        let site = Site::start(with_ech, silent, |s| s.dns.remove_ech = remove).await;
        let mut question = query("good.example.", RecordType::HTTPS);
        question.metadata.authentic_data = true;
        let answer = site.ask(&question).await;
        let RData::HTTPS(https) = &answer.answers[0].data else { panic!("{answer:?}") };
        assert_eq!(https.0.svc_params.len(), if remove { 1 } else { 2 });
        assert_eq!(answer.metadata.authentic_data, !remove);
    }
}

#[tokio::test]
async fn forged_answers_are_passed_over() {
    let forged = |query: &Message| {
        let mut wrong_id = one_address(query);
        wrong_id[0].metadata.id ^= 1;
        let mut wrong_name = one_address(query);
        wrong_name[0].queries[0].name = name("other.example.");
        let mut no_answer = one_address(query);
        no_answer[0].metadata.message_type = MessageType::Query;
        let mut answers = [wrong_id, wrong_name, no_answer].concat();
        for answer in &mut answers {
            answer.answers[0].data = RData::A(A(Ipv4Addr::new(203, 0, 113, 66)));
        }
        answers.extend(one_address(query));
        answers
    };
    let site = Site::start(forged, silent, |_| {}).await;
    let answer = site.ask(&query("good.example.", RecordType::A)).await;
    assert_eq!(answer.answers[0].data.ip_addr().unwrap().to_string(), "192.0.2.1");
}

#[tokio::test]
async fn a_long_answer_comes_by_tcp_on_both_sides() {
    let truncated = |query: &Message| {
        let mut answer = reply(query);
        answer.metadata.truncation = true;
        vec![answer]
    };
    let long = |query: &Message| {
        let mut answer = reply(query);
        for _ in 0..20 {
            let text = RData::TXT(TXT::new(vec!["x".repeat(200)]));
            answer.answers.push(Record::from_rdata(query.queries[0].name.clone(), 60, text));
        }
        vec![answer]
    };
    let site = Site::start(truncated, long, |_| {}).await;
    let question = with_edns(query("long.example.", RecordType::TXT));
    let cut = site.ask(&question).await;
    assert!(cut.metadata.truncation && cut.answers.is_empty());
    let whole = site.ask_by_tcp(&question).await;
    assert!(!whole.metadata.truncation && whole.answers.len() == 20);
    assert_eq!((site.counters.truncated.get(), site.counters.upstream_tcp.get()), (1, 1));
    assert_eq!((site.counters.udp.get(), site.counters.tcp.get()), (1, 1));
}

#[tokio::test]
async fn without_a_resolver_there_is_a_failure_that_is_not_kept() {
    let site = Site::start(silent, silent, |_| {}).await;
    let answer = site.ask(&with_edns(query("good.example.", RecordType::A))).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(extended_error(&answer), "23 no resolver answered");
    assert_eq!((site.counters.failed.get(), site.counters.upstream_failures.get()), (1, 2));
    assert_eq!(site.records()[0].outcome, Outcome::Failed);
}

#[tokio::test]
async fn that_a_name_does_not_exist_is_kept_as_long_as_its_zone_says() {
    let nothing = |query: &Message| {
        let mut answer = reply(query);
        answer.metadata.response_code = ResponseCode::NXDomain;
        let root = Name::root();
        let minimum = u32::from(query.queries[0].name.to_ascii().starts_with("kept"));
        let soa = SOA::new(root.clone(), root.clone(), 1, 1, 1, 1, minimum * 60);
        answer.authorities.push(Record::from_rdata(root, 3_600, RData::SOA(soa)));
        vec![answer]
    };
    let site = Site::start(nothing, silent, |_| {}).await;
    for text in ["kept.example.", "kept.example.", "other.example.", "other.example."] {
        let answer = site.ask(&query(text, RecordType::A)).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    }
    assert_eq!(site.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn what_is_no_query_gets_an_error_or_nothing() {
    let site = Site::start(one_address, silent, |_| {}).await;
    let code = |bytes: Vec<u8>| Message::from_vec(&bytes).unwrap().metadata.response_code;
    let broken = [&[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &[0xff; 3]].concat();
    assert_eq!(code(site.bytes(&broken).await.unwrap()), ResponseCode::FormErr);
    assert_eq!(site.bytes(&[1, 2, 3]).await, None);
    let mut update = query("x.example.", RecordType::SOA);
    update.metadata.op_code = OpCode::Notify;
    assert_eq!(site.ask(&update).await.metadata.response_code, ResponseCode::NotImp);
    let transfer = query("x.example.", RecordType::AXFR);
    assert_eq!(site.ask(&transfer).await.metadata.response_code, ResponseCode::Refused);
    let mut two = query("x.example.", RecordType::A);
    two.queries.push(two.queries[0].clone());
    assert_eq!(site.ask(&two).await.metadata.response_code, ResponseCode::FormErr);
    let mut version = with_edns(query("x.example.", RecordType::A));
    version.edns.as_mut().unwrap().set_version(7);
    let code = u16::from(site.ask(&version).await.metadata.response_code);
    assert_eq!(code, u16::from(ResponseCode::BADVERS));
    assert_eq!(site.counters.malformed.get(), 6);
}

#[tokio::test]
async fn strangers_get_nothing() {
    let nobody = |settings: &mut Settings| settings.client_networks.clear();
    let site = Site::start(one_address, silent, nobody).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let bytes = query("good.example.", RecordType::A).to_vec().unwrap();
    socket.send_to(&bytes, site.address).await.unwrap();
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    assert_eq!(timeout(WAIT, stream.read(&mut [0; 1])).await.unwrap().unwrap_or(0), 0);
    timeout(WAIT, async {
        while site.counters.strangers.get() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!((site.counters.udp.get(), site.counters.connections_refused.get()), (0, 1));
}

#[tokio::test]
async fn a_service_that_would_ask_itself_does_not_start() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut settings = Settings::default();
    settings.dns.upstream = vec![listener.local_addr().unwrap().to_string()];
    let started = DnsServer::with_sockets(vec![listener], vec![], settings, Parts::default());
    let error = started.err().unwrap().to_string();
    assert!(error.contains("is this service itself"), "{error}");
}

#[test]
fn any_bytes_get_an_answer_that_fits_or_nothing() {
    let question = with_edns(query("a.b.example.", RecordType::A)).to_vec().unwrap();
    let answers = one_address(&query("a.b.example.", RecordType::A))[0].to_vec().unwrap();
    let mut loops = question.clone();
    loops[12..14].copy_from_slice(&[0xc0, 12]);
    for question in [question, loops] {
        let input = [&[u8::try_from(question.len()).unwrap()], &question[..], &answers].concat();
        feed(&input);
        for at in 0..input.len() {
            feed(&input[..at]);
            for byte in [0, 1, 0x3f, 0x40, 0x80, 0xc0, 0xff] {
                let mut changed = input.clone();
                changed[at] = byte;
                feed(&changed);
            }
        }
    }
}

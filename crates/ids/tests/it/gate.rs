//! The gate before a pipeline: what it is asked, and what becomes of frames.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use gauntlet_ids::config::Settings;
use gauntlet_ids::pipeline::gate::{Decided, LinkKind, Question, Refusal, functions};
use gauntlet_ids::pipeline::observer::{GateDecision, Observer, TransactionEvent, Wishes};
use gauntlet_ids::pipeline::{self, DropCause, Event, Fate, Gate, Pipeline};
use gauntlet_ids::replay::{Options, detector, layers, program};
use gauntlet_packet::flow::{Admission, Basis, Passage};
use gauntlet_packet::{Frame, Link, Time};

const CLIENT: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [192, 0, 2, 2];
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

type Decide = Box<dyn Fn(&Question) -> Passage + Send + Sync>;

/// A gate of a test.
struct Asked {
    decide: Decide,
    generation: u32,
    functions: u8,
    strict: bool,
    pick_up_seconds: u32,
    questions: Mutex<Vec<Question>>,
    counted: Mutex<Vec<(Decided, bool)>>,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asked")
    }
}

impl Asked {
    fn new(decide: impl Fn(&Question) -> Passage + Send + Sync + 'static) -> Self {
        Self {
            decide: Box::new(decide),
            generation: 0,
            functions: functions::ALL,
            strict: false,
            pick_up_seconds: 0,
            questions: Mutex::default(),
            counted: Mutex::default(),
        }
    }
}

impl Gate for Asked {
    fn generation(&self) -> u32 {
        self.generation
    }

    fn decide(&self, question: &Question) -> Admission {
        self.questions.lock().unwrap().push(*question);
        let passage = (self.decide)(question);
        let (generation, functions) = (self.generation, self.functions);
        Admission { generation, rule: 7, passage, functions, basis: Basis::First }
    }

    fn lets_pass(&self, kind: LinkKind) -> bool {
        !self.strict && matches!(kind, LinkKind::Arp | LinkKind::Ndp)
    }

    fn takes_fragments(&self) -> bool {
        !self.strict
    }

    fn takes_malformed(&self) -> bool {
        false
    }

    fn pick_up_seconds(&self) -> u32 {
        self.pick_up_seconds
    }

    fn name(&self, rule: u16) -> &str {
        assert_eq!(rule, 7);
        "seven"
    }

    fn count(&self, decided: Decided, is_first: bool, _: Time) -> bool {
        self.counted.lock().unwrap().push((decided, is_first));
        true
    }
}

/// What was told.
#[derive(Default)]
struct Told {
    alerts: usize,
    requests: usize,
    decisions: Vec<(Passage, bool)>,
}

impl Observer for Told {
    fn packet(&mut self, event: &Event<'_>) {
        self.alerts += event.alerts().len();
    }

    fn request(&mut self, _: &TransactionEvent<'_>) {
        self.requests += 1;
    }

    fn decided(&mut self, decision: &GateDecision<'_>) {
        self.decisions.push((decision.passage, decision.is_recorded));
    }
}

struct Line {
    pipeline: Pipeline,
    layers: pipeline::Settings,
    options: Options,
    gate: Arc<Asked>,
    told: Told,
    second: i64,
    _folder: tempfile::TempDir,
}

impl Line {
    fn new(gate: Asked, inline: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules = folder.path().join("a.rules");
        let text = "alert ip any any -> any any (ttl:64; sid:1;)\n\
                    alert http any any -> any any (http.uri; content:\"/\"; sid:2;)\n";
        std::fs::write(&rules, text).unwrap();
        let mut settings = Settings::stock();
        // Inline, streams that are picked up in their middle would be dropped by that.
        settings.assign("stream.midstream-policy=ignore").unwrap();
        let options = Options {
            settings,
            directory: PathBuf::new(),
            rules: vec![rules],
            inline,
            checksums: Some(false),
        };
        let program = Arc::new(program(&options).unwrap());
        let (mut layers, _, _) = layers(&options);
        let gate = Arc::new(gate);
        layers.gate = Some(gate.clone());
        layers.wishes = Wishes { requests: true, ..Wishes::default() };
        program.wants(&mut layers.protocols);
        let detector = detector(&options, &program).unwrap();
        let pipeline = Pipeline::new(program, detector, &layers);
        let told = Told::default();
        Self { pipeline, layers, options, gate, told, second: 0, _folder: folder }
    }

    /// An IP packet in a frame of Ethernet.
    fn ip(&mut self, packet: &[u8]) -> Fate {
        let kind: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
        self.frame(&[&[2; 12][..], &kind, packet].concat())
    }

    fn frame(&mut self, bytes: &[u8]) -> Fate {
        let frame = Frame {
            number: 1,
            time: Time { seconds: 1_700_000_000 + self.second, micros: 0 },
            link: Link::Ethernet,
            original_len: bytes.len() as u32,
            bytes: bytes.into(),
        };
        self.pipeline.frame(&frame, &mut self.told)
    }

    /// Another policy from now on.
    fn replace(&mut self, gate: Asked) {
        self.gate = Arc::new(Asked { generation: self.gate.generation + 1, ..gate });
        self.layers.gate = Some(self.gate.clone());
        let program = Arc::new(program(&self.options).unwrap());
        let detector = detector(&self.options, &program).unwrap();
        self.pipeline.reload(program, detector, &self.layers);
    }

    fn questions(&self) -> usize {
        std::mem::take(&mut *self.gate.questions.lock().unwrap()).len()
    }

    fn alerts(&mut self) -> usize {
        std::mem::take(&mut self.told.alerts)
    }
}

fn is_refused(fate: &Fate) -> bool {
    matches!(fate.drop, Some(DropCause::Policy("packet policy")))
}

/// An IPv4 packet; `fragment`: flags and offset.
fn ipv4(ends: [[u8; 4]; 2], protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 9]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(ends.concat());
    packet.extend(payload);
    packet
}

fn tcp(ends: [[u8; 4]; 2], ports: [u16; 2], flags: u8, at: [u32; 2], payload: &[u8]) -> Vec<u8> {
    let mut segment: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
    segment.extend(at.into_iter().flat_map(u32::to_be_bytes));
    segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    ipv4(ends, 6, 0, &segment)
}

fn udp(ends: [[u8; 4]; 2], ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    ipv4(ends, 17, 0, &datagram(ports, payload))
}

fn datagram(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let words = [ports[0], ports[1], 8 + payload.len() as u16, 0];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u16::to_be_bytes).collect();
    bytes.extend(payload);
    bytes
}

/// An ICMP message of this type that carries the beginning of a packet.
fn icmp(ends: [[u8; 4]; 2], kind: u8, about: &[u8]) -> Vec<u8> {
    let message = [&[kind, 0, 0, 0, 0, 1, 0, 1][..], &about[..about.len().min(28)]].concat();
    ipv4(ends, 1, 0, &message)
}

/// Those to port 80, and pings.
fn web_alone(question: &Question) -> Passage {
    let is_ping = question.icmp == Some((8, 0));
    let is_web = question.protocol == 6 && question.destination.port == 80;
    if is_web || is_ping { Passage::Inspected } else { Passage::Dropped }
}

const FORTH: [[u8; 4]; 2] = [CLIENT, SERVER];
const BACK: [[u8; 4]; 2] = [SERVER, CLIENT];

#[test]
fn a_flow_is_asked_about_once_and_answers_pass_with_it() {
    let mut line = Line::new(Asked::new(web_alone), true);
    assert_eq!(line.ip(&tcp(FORTH, [4000, 80], SYN, [1, 0], b"")).drop, None);
    assert_eq!(line.ip(&tcp(BACK, [80, 4000], SYN | ACK, [9, 2], b"")).drop, None);
    assert_eq!(line.ip(&tcp(FORTH, [4000, 80], ACK, [2, 10], b"")).drop, None);
    assert_eq!(line.questions(), 1);
    assert_eq!(line.alerts(), 3);
    // The other way it would have been refused.
    assert!(is_refused(&line.ip(&tcp(BACK, [80, 4001], SYN, [1, 0], b""))));
    assert!(is_refused(&line.ip(&tcp(BACK, [80, 4001], SYN, [1, 0], b""))));
    assert_eq!((line.questions(), line.alerts()), (2, 0));
    assert_eq!(line.pipeline.load().flows, 1, "refused packets begin no flow");
    assert_eq!(line.told.decisions.len(), 3);
    assert_eq!(
        line.pipeline
            .counters()
            .iter()
            .find(|it| it.name == "ips.drop_reason.packet_policy")
            .map(|it| it.value),
        Some(2)
    );
}

#[test]
fn a_flow_that_passes_freely_is_not_looked_at() {
    let mut line = Line::new(Asked::new(|_| Passage::Free), true);
    for _ in 0..3 {
        let fate = line.ip(&tcp(FORTH, [4000, 80], SYN, [1, 0], b"GET / HTTP/1.1\r\n"));
        assert!(fate.passes && fate.drop.is_none());
    }
    // Each SYN may begin a new connection.
    assert_eq!(line.questions(), 3);
    line.ip(&tcp(BACK, [80, 4000], SYN | ACK, [9, 2], b""));
    line.ip(&tcp(FORTH, [4000, 80], ACK, [2, 10], b""));
    assert_eq!((line.questions(), line.alerts()), (0, 0));
    // Idle for longer than a flow that never was answered is kept.
    line.second = 500;
    line.ip(&tcp(BACK, [80, 4000], ACK, [9, 2], b""));
    assert_eq!(line.questions(), 0, "an established connection is kept");
    line.ip(&tcp(BACK, [80, 4000], FIN | ACK, [9, 2], b""));
    line.ip(&tcp(FORTH, [4000, 80], FIN | ACK, [9, 2], b""));
    line.second = 600;
    line.ip(&tcp(FORTH, [4000, 80], ACK, [9, 2], b""));
    assert_eq!(line.questions(), 1, "one that is over is forgotten soon");
    line.ip(&tcp(FORTH, [4000, 80], RST, [9, 2], b""));
    line.second = 700;
    line.ip(&tcp(FORTH, [4000, 80], ACK, [9, 2], b""));
    assert_eq!(line.questions(), 1);
}

#[test]
fn what_is_not_to_look_at_a_flow_does_not() {
    let request = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
    for (allowed, alerts, requests) in [
        (functions::ALL, 5, 1),
        (functions::URLS, 0, 1),
        (functions::RULES, 5, 0),
        (functions::MAIL, 0, 0),
    ] {
        let gate = Asked { functions: allowed, ..Asked::new(web_alone) };
        let mut line = Line::new(gate, true);
        line.ip(&tcp(FORTH, [4000, 80], SYN, [1, 0], b""));
        line.ip(&tcp(BACK, [80, 4000], SYN | ACK, [9, 2], b""));
        line.ip(&tcp(FORTH, [4000, 80], ACK, [2, 10], b""));
        line.ip(&tcp(FORTH, [4000, 80], ACK, [2, 10], request));
        assert_eq!((line.alerts(), line.told.requests), (alerts, requests), "{allowed}");
    }
}

#[test]
fn another_policy_is_asked_about_old_flows_once() {
    let mut line = Line::new(Asked::new(web_alone), true);
    line.ip(&tcp(FORTH, [4000, 80], SYN, [1, 0], b""));
    line.ip(&tcp(BACK, [80, 4000], SYN | ACK, [9, 2], b""));
    line.replace(Asked::new(|_| Passage::Dropped));
    // By a packet that goes back; the question is about the flow.
    assert!(is_refused(&line.ip(&tcp(BACK, [80, 4000], ACK, [10, 2], b""))));
    let question = line.gate.questions.lock().unwrap()[0];
    assert_eq!(question.destination.port, 80);
    assert!(is_refused(&line.ip(&tcp(FORTH, [4000, 80], ACK, [2, 10], b""))));
    assert_eq!(line.questions(), 1);
    let counted = std::mem::take(&mut *line.gate.counted.lock().unwrap());
    let refused = Decided::Refused(Refusal::Rule(7));
    assert_eq!(counted, [(refused, true), (refused, false)]);
    line.replace(Asked::new(web_alone));
    assert_eq!(line.ip(&tcp(FORTH, [4000, 80], ACK, [2, 10], b"")).drop, None);
    assert_eq!(line.questions(), 1);
    // From passing to being inspected.
    line.replace(Asked::new(|_| Passage::Free));
    line.alerts();
    assert!(line.ip(&tcp(FORTH, [4000, 80], ACK, [2, 10], b"")).passes);
    assert_eq!(line.alerts(), 0);
    line.replace(Asked::new(web_alone));
    assert!(!line.ip(&tcp(FORTH, [4000, 80], ACK, [2, 10], b"")).passes);
    assert_eq!(line.alerts(), 1);
}

#[test]
fn errors_of_icmp_pass_with_the_flow_that_they_are_about() {
    let mut line = Line::new(Asked::new(web_alone), true);
    let opening = tcp(FORTH, [4000, 80], SYN, [1, 0], b"");
    line.ip(&opening);
    let router = [198, 51, 100, 1];
    for kind in [3, 4, 11, 12] {
        assert_eq!(line.ip(&icmp([router, CLIENT], kind, &opening)).drop, None, "{kind}");
    }
    // To someone else, about another flow, and one that changes routes.
    assert!(is_refused(&line.ip(&icmp([router, [192, 0, 2, 9]], 3, &opening))));
    let other = tcp(FORTH, [4001, 80], SYN, [1, 0], b"");
    assert!(is_refused(&line.ip(&icmp([router, CLIENT], 3, &other))));
    assert!(is_refused(&line.ip(&icmp([router, CLIENT], 5, &opening))));
    // An error that a rule lets pass freely takes nothing of that to the flow that it is about.
    let free = |question: &Question| match question.icmp {
        Some(_) => Passage::Free,
        None => web_alone(question),
    };
    line.replace(Asked::new(free));
    assert!(line.ip(&icmp([router, [192, 0, 2, 9]], 3, &opening)).passes);
    assert!(!line.ip(&opening).passes);
    line.replace(Asked::new(web_alone));
    // Pings, their answers, and errors about them.
    let ping = icmp(FORTH, 8, b"ping");
    assert_eq!(line.ip(&ping).drop, None);
    assert_eq!(line.ip(&icmp(BACK, 0, b"ping")).drop, None);
    assert_eq!(line.ip(&icmp([router, CLIENT], 11, &ping)).drop, None);
    assert!(is_refused(&line.ip(&icmp(BACK, 8 + 5, b"ping"))));
}

#[test]
fn data_of_ftp_passes_with_its_flow() {
    let ftp = |question: &Question| match question.destination.port {
        21 => Passage::Inspected,
        _ => Passage::Dropped,
    };
    let mut line = Line::new(Asked::new(ftp), true);
    let ports = [4000, 21];
    line.ip(&tcp(FORTH, ports, SYN, [1, 0], b""));
    line.ip(&tcp(BACK, [21, 4000], SYN | ACK, [9, 2], b""));
    line.ip(&tcp(FORTH, ports, ACK, [2, 10], b""));
    let mut at = [2, 10];
    let mut say = |line: &mut Line, is_client: bool, text: &str| {
        let (ends, ports, own) = match is_client {
            true => (FORTH, ports, 0),
            false => (BACK, [21, 4000], 1),
        };
        let place = [at[own], at[1 - own]];
        at[own] += text.len() as u32;
        assert_eq!(line.ip(&tcp(ends, ports, ACK, place, text.as_bytes())).drop, None);
    };
    say(&mut line, false, "220 ready\r\n");
    say(&mut line, true, "USER anonymous\r\n");
    say(&mut line, false, "230 welcome\r\n");
    say(&mut line, true, "PASV\r\n");
    let data = tcp(FORTH, [4001, 1025], SYN, [1, 0], b"");
    assert!(is_refused(&line.ip(&data)), "it was not announced yet");
    say(&mut line, false, "227 Entering Passive Mode (192,0,2,2,4,1)\r\n");
    // The other way round, and from someone else.
    assert!(is_refused(&line.ip(&tcp(BACK, [4001, 1025], SYN, [1, 0], b""))));
    let other = tcp([[192, 0, 2, 7], SERVER], [4001, 1025], SYN, [1, 0], b"");
    assert!(is_refused(&line.ip(&other)));
    assert_eq!(line.ip(&data).drop, None);
    assert_eq!(line.ip(&tcp(BACK, [1025, 4001], SYN | ACK, [5, 2], b"")).drop, None);
    // Once.
    assert!(is_refused(&line.ip(&tcp(FORTH, [4002, 1025], SYN, [1, 0], b""))));
    // Announced by the client: the server connects.
    say(&mut line, true, "PORT 192,0,2,1,8,1\r\n");
    say(&mut line, false, "200 good\r\n");
    let early = tcp(BACK, [20, 2049], SYN, [1, 0], b"");
    let mut late = Line { second: 500, ..line };
    assert!(is_refused(&late.ip(&early)), "announcements are forgotten");
    late.second = 1;
    assert_eq!(late.ip(&early).drop, None);
}

#[test]
fn connections_under_way_are_taken_up_for_a_while() {
    let gate = Asked { pick_up_seconds: 30, ..Asked::new(web_alone) };
    let mut line = Line::new(gate, true);
    assert_eq!(line.ip(&tcp(BACK, [80, 4000], ACK, [9, 2], b"x")).drop, None);
    assert!(is_refused(&line.ip(&tcp(BACK, [80, 4001], SYN, [9, 2], b""))), "it begins one");
    assert!(is_refused(&line.ip(&tcp(BACK, [81, 4000], ACK, [9, 2], b"x"))));
    line.second = 30;
    assert!(is_refused(&line.ip(&tcp(BACK, [80, 4002], ACK, [9, 2], b"x"))));
    assert_eq!(line.ip(&tcp(BACK, [80, 4000], ACK, [9, 2], b"x")).drop, None, "its flow is known");
    line.questions();
    // A new policy is asked as the answer was.
    line.replace(Asked::new(web_alone));
    assert_eq!(line.ip(&tcp(BACK, [80, 4000], ACK, [9, 2], b"x")).drop, None);
    assert_eq!(line.gate.questions.lock().unwrap()[0].destination.port, 80);
}

#[test]
fn fragments_pass_as_their_first_one_says() {
    let dns = |question: &Question| match (question.protocol, question.destination.port) {
        (17, 53) => Passage::Inspected,
        _ => Passage::Dropped,
    };
    const MORE: u16 = 0x2000;
    let mut line = Line::new(Asked::new(dns), true);
    let whole = datagram([4000, 53], &[7; 40]);
    assert_eq!(line.ip(&ipv4(FORTH, 17, MORE, &whole[..24])).drop, None);
    assert_eq!(line.ip(&ipv4(FORTH, 17, 3, &whole[24..])).drop, None);
    assert_eq!(line.pipeline.load().flows, 1);
    // The answer, in fragments.
    let answer = datagram([53, 4000], &[7; 40]);
    assert_eq!(line.ip(&ipv4(BACK, 17, MORE, &answer[..24])).drop, None);
    assert_eq!(line.ip(&ipv4(BACK, 17, 3, &answer[24..])).drop, None);
    // To a port that is not open: neither the first one, nor what they would make up.
    let ends = [CLIENT, [192, 0, 2, 3]];
    let closed = datagram([4000, 54], &[7; 40]);
    assert!(is_refused(&line.ip(&ipv4(ends, 17, MORE, &closed[..24]))));
    assert!(is_refused(&line.ip(&ipv4(ends, 17, 3, &closed[24..]))));
    // Too short to say.
    let fate = line.ip(&ipv4([CLIENT, [192, 0, 2, 4]], 6, MORE, &[0; 16]));
    assert_eq!(fate.drop, Some(DropCause::Policy("fragment")));
    let mut strict = Line::new(Asked { strict: true, ..Asked::new(dns) }, true);
    let fate = strict.ip(&ipv4(FORTH, 17, MORE, &whole[..24]));
    assert_eq!(fate.drop, Some(DropCause::Policy("fragment")));
}

#[test]
fn fragments_of_ipv6_say_their_ports_behind_extension_headers() {
    let dns = |question: &Question| match (question.protocol, question.destination.port) {
        (17, 53) => Passage::Inspected,
        _ => Passage::Dropped,
    };
    let packet = |port: u16, options: bool| {
        let mut rest = Vec::new();
        if options {
            rest.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        }
        rest.extend(datagram([4000, port], &[7; 16]));
        let next = if options { 60 } else { 17 };
        // The fragment header: more follow.
        let body = [&[next, 0, 0, 1, 0, 0, 0, 9][..], &rest].concat();
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((body.len() as u16).to_be_bytes());
        packet.extend([44, 64]);
        packet.extend([0x20; 16]);
        packet.extend([0x21; 16]);
        packet.extend(body);
        packet
    };
    let mut line = Line::new(Asked::new(dns), true);
    for options in [false, true] {
        assert_eq!(line.ip(&packet(53, options)).drop, None, "{options}");
        assert!(is_refused(&line.ip(&packet(54, options))), "{options}");
    }
}

#[test]
fn tunnels_go_with_the_packet_that_carries_them() {
    let gre = |question: &Question| match question.protocol {
        47 => Passage::Inspected,
        _ => Passage::Dropped,
    };
    let inner = udp([[10, 0, 0, 1], [10, 0, 0, 2]], [4000, 54], b"within");
    let packet = ipv4(FORTH, 47, 0, &[&[0, 0, 8, 0][..], &inner].concat());
    let mut line = Line::new(Asked::new(gre), true);
    assert_eq!(line.ip(&packet).drop, None);
    assert_eq!((line.questions(), line.alerts()), (1, 2), "both packets were looked at");
    let mut line = Line::new(Asked::new(|_| Passage::Free), true);
    assert!(line.ip(&packet).passes);
    assert_eq!(line.alerts(), 0);
    let mut line = Line::new(Asked::new(|_| Passage::Dropped), true);
    assert!(is_refused(&line.ip(&packet)));
    assert_eq!((line.alerts(), line.pipeline.load().flows), (0, 0));
}

#[test]
fn frames_without_ip_pass_by_their_kind() {
    let arp = [&[2; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]].concat();
    let spanning_tree = [&[2; 12][..], &[0, 38, 0x42, 0x42, 3], &[0; 35]].concat();
    let tagged = [&[2; 12][..], &[0x81, 0, 0, 5], &arp[12..]].concat();
    // It says that it is IP, behind more tags than are decoded.
    let nested = [&[2; 12][..], &[0x81, 0, 0, 5].repeat(6), &[8, 0, 0x45], &[0; 30]].concat();
    let cut = [&[2; 12][..], &[8, 0, 0x45, 0]].concat();
    let drop = |frame: &[u8], strict: bool| {
        let gate = Asked { strict, ..Asked::new(|_| Passage::Inspected) };
        Line::new(gate, true).frame(frame).drop.map(DropCause::name)
    };
    assert_eq!(drop(&arp, false), None);
    assert_eq!(drop(&tagged, false), None);
    assert_eq!(drop(&arp, true), Some("link protocol"));
    assert_eq!(drop(&spanning_tree, false), Some("link protocol"));
    assert_eq!(drop(&nested, false), Some("malformed"));
    assert_eq!(drop(&cut, false), Some("malformed"));
    assert_eq!(drop(&[2; 13], false), Some("link protocol"));
}

#[test]
fn where_nothing_is_dropped_refused_flows_are_looked_at() {
    let mut line = Line::new(Asked { functions: 0, ..Asked::new(|_| Passage::Dropped) }, false);
    for flags in [SYN, ACK] {
        assert_eq!(line.ip(&tcp(FORTH, [4000, 80], flags, [1, 0], b"")).drop, None);
    }
    assert_eq!(line.alerts(), 2);
    assert_eq!(line.questions(), 1);
    assert_eq!(line.told.decisions, [(Passage::Dropped, true)]);
}

#[test]
fn whatever_the_bytes_the_gate_does_not_panic() {
    let mut line = Line::new(Asked::new(web_alone), true);
    let opening = tcp(FORTH, [4000, 80], SYN, [1, 0], b"");
    let samples = [
        opening.clone(),
        icmp([SERVER, CLIENT], 3, &opening),
        ipv4(FORTH, 17, 0x2000, &datagram([4000, 53], &[7; 16])),
        ipv4(FORTH, 47, 0, &[&[0, 0, 8, 0][..], &opening].concat()),
    ];
    for sample in samples {
        for end in 0..sample.len() {
            line.frame(&[&[2; 12][..], &[8, 0], &sample[..end]].concat());
        }
        for at in 0..sample.len() {
            for byte in [0, 1, 0x2c, 0x60, 0xff] {
                let mut changed = sample.clone();
                changed[at] = byte;
                line.ip(&changed);
                line.frame(&[&[2; 12][..], &[0x86, 0xdd], &changed].concat());
            }
        }
    }
    let address = IpAddr::V4(Ipv4Addr::from(SERVER));
    let questions = line.gate.questions.lock().unwrap();
    assert!(questions.iter().any(|question| question.destination.address == address));
}

//! Traces of messages go to an OpenTelemetry collector, and mail does not wait for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gauntlet_gateway::traces::trace_id;
use serde_json::Value;

use crate::common::{Node, Smtp, http_get, message};

/// A server that takes OTLP over HTTP and answers 200, or 503 to the first requests.
struct Collector {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start(busy: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let taken = requests.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let mut reader = BufReader::new(&stream);
                let (mut line, mut length) = (String::new(), 0);
                reader.read_line(&mut line).unwrap();
                assert!(line.starts_with("POST /v1/traces "), "{line}");
                loop {
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                    let lower = line.trim().to_lowercase();
                    if let Some(count) = lower.strip_prefix("content-length: ") {
                        length = count.parse().unwrap();
                    }
                    if lower.is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let is_busy = number < busy;
                if !is_busy {
                    taken.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                }
                let status = if is_busy { "503 Service Unavailable" } else { "200 OK" };
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
                );
                (&stream).write_all(answer.as_bytes()).unwrap();
            }
        });
        Collector { address, requests }
    }

    fn spans(&self) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        let spans = requests.iter().map(|r| &r["resourceSpans"][0]["scopeSpans"][0]["spans"]);
        spans.filter_map(Value::as_array).flatten().cloned().collect()
    }
}

fn settings(address: SocketAddr) -> String {
    format!("[facts]\nenabled = false\n[traces]\notlp = \"http://{address}\"\n")
}

fn send(node: &Node, token: &str) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message(token, 0)).unwrap();
    assert!(reply.starts_with("250 "), "{reply}");
}

#[test]
fn a_collector_gets_the_stages_and_deliveries_of_a_message() {
    let collector = Collector::start(1);
    let node = Node::start_named("mx1.test", &settings(collector.address));
    send(&node, "traced");
    node.wait_until("the delivery is in the trace", || {
        collector.spans().iter().any(|span| span["name"] == "delivery")
    });
    let spans = collector.spans();
    for name in ["message", "received", "scanned", "decided", "spooled"] {
        assert!(spans.iter().any(|span| span["name"] == name), "{name}: {spans:?}");
    }
    let root = spans.iter().find(|span| span["name"] == "message").unwrap();
    let attributes = root["attributes"].as_array().unwrap();
    let id = attributes.iter().find(|a| a["key"] == "gauntlet.id").unwrap();
    let id = id["value"]["stringValue"].as_str().unwrap();
    assert_eq!(root["traceId"], trace_id("mx1.test", id));
    let costs = spans.iter().flat_map(|span| span["attributes"].as_array().unwrap());
    let names: Vec<&str> = costs.filter_map(|a| a["key"].as_str()).collect();
    assert!(names.iter().any(|name| name.starts_with("gauntlet.cost_us.")), "{names:?}");
    let sent = format!("{:?}", collector.requests.lock().unwrap());
    assert!(!sent.contains("bob@example.net") && !sent.contains("minutes of"), "{sent}");
    assert!(http_get(node.console, "/metrics").contains("gauntlet_trace_spans_dropped_total 0"));
    // What OpenTelemetry's own definitions make of it.
    let Some(python) = python() else { return };
    let file = node.data().join("request.json");
    for request in collector.requests.lock().unwrap().iter() {
        std::fs::write(&file, request.to_string()).unwrap();
        let checked =
            std::process::Command::new(&python).args(["-c", READ]).arg(&file).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}

/// The Python that has OpenTelemetry's definitions. None, with a loud note, if it is not installed;
/// then a test in CI fails.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("GAUNTLET_OTLP_PYTHON").map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/peers/otlp/bin/python");
    let found = named.into_iter().chain([usual]).find(|path| path.is_file());
    if found.is_none() {
        let missing = "opentelemetry-proto is not installed (./check does it)";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("SKIPPED: {missing}");
    }
    found
}

/// Ids are hexadecimal digits in OTLP's JSON, where protobuf's own mapping has base64.
const READ: &str = "
import base64, json, sys
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
request = json.load(open(sys.argv[1]))
for span in request['resourceSpans'][0]['scopeSpans'][0]['spans']:
    for name, size in ('traceId', 16), ('spanId', 8), ('parentSpanId', 8):
        if name in span:
            raw = bytes.fromhex(span[name])
            assert len(raw) == size, span
            span[name] = base64.b64encode(raw).decode()
read = json_format.ParseDict(request, ExportTraceServiceRequest())
for span in read.resource_spans[0].scope_spans[0].spans:
    assert span.end_time_unix_nano >= span.start_time_unix_nano > 10**18, span
";

#[test]
fn mail_goes_on_without_the_collector() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let node = Node::start(&settings(nobody));
    send(&node, "untraced");
    node.wait_until("it is delivered", || !node.maildir().is_empty());
    node.wait_until("the log says so", || node.log().contains("traces cannot be sent"));
    let text = http_get(node.console, "/metrics");
    assert!(text.contains("gauntlet_trace_spans_sent_total 0"), "{text}");
}

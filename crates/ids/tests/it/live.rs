//! What becomes of frames, and rules that are replaced while packets come.

use std::path::PathBuf;
use std::sync::Arc;

use gauntlet_ids::config::Settings;
use gauntlet_ids::pipeline::{DropCause, Fate, Pipeline, on_packet};
use gauntlet_ids::replay::{Options, detector, layers, next_program, program};
use gauntlet_packet::{Frame, Link, Time};

/// IPv4 and UDP from port 5000 to 6000 (RFC 791, 768), without a UDP checksum.
fn frame(second: i64, payload: &[u8]) -> Frame {
    let udp_len = 8 + payload.len() as u16;
    let mut bytes = vec![0x45, 0];
    bytes.extend((20 + udp_len).to_be_bytes());
    bytes.extend([0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    bytes.extend([5_000, 6_000, udp_len, 0].into_iter().flat_map(u16::to_be_bytes));
    bytes.extend(payload);
    Frame {
        number: 1,
        time: Time { seconds: 1_700_000_000 + second, micros: 0 },
        link: Link::Raw,
        original_len: bytes.len() as u32,
        bytes: bytes.into(),
    }
}

struct Live {
    folder: tempfile::TempDir,
    options: Options,
    program: Arc<gauntlet_ids::detect::Program>,
    pipeline: Pipeline,
    alerts: Vec<u32>,
}

impl Live {
    fn new(rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.rules");
        std::fs::write(&file, rules).unwrap();
        let options = Options {
            settings: Settings::stock(),
            directory: PathBuf::new(),
            rules: vec![file],
            inline: true,
            checksums: None,
        };
        let program = Arc::new(program(&options).unwrap());
        let (layers, _, _) = layers(&options);
        let detector = detector(&options, &program).unwrap();
        let pipeline = Pipeline::new(Arc::clone(&program), detector, &layers);
        Self { folder, options, program, pipeline, alerts: Vec::new() }
    }

    fn frame(&mut self, second: i64, payload: &[u8]) -> Fate {
        let Self { pipeline, alerts, .. } = self;
        let mut observer = on_packet(|event| {
            let rules = &event.program.rules.rules;
            alerts.extend(event.alerts().iter().map(|alert| rules[alert.rule as usize].sid));
        });
        pipeline.frame(&frame(second, payload), &mut observer)
    }

    fn reload(&mut self, rules: &str) {
        std::fs::write(self.folder.path().join("a.rules"), rules).unwrap();
        self.program = Arc::new(next_program(&self.options, &self.program).unwrap());
        let (layers, _, _) = layers(&self.options);
        let detector = detector(&self.options, &self.program).unwrap();
        self.pipeline.reload(Arc::clone(&self.program), detector, &layers);
    }

    fn alerts(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.alerts)
    }
}

#[test]
fn frames_are_dropped_by_rules_and_by_their_flow() {
    let mut live = Live::new(
        "drop udp any any -> any 6000 (content:\"one\"; sid:1;)\n\
         drop:flow udp any any -> any 6000 (content:\"all\"; sid:2;)\n",
    );
    assert_eq!(live.frame(0, b"fine"), Fate::default());
    assert_eq!(live.frame(1, b"one").drop, Some(DropCause::Rule));
    assert_eq!(live.frame(2, b"fine"), Fate::default());
    assert_eq!(live.frame(3, b"all").drop, Some(DropCause::Rule));
    assert_eq!(live.frame(4, b"fine").drop, Some(DropCause::Flow));
    assert_eq!(live.alerts(), [1, 2]);
    // After its time the flow is over, and so is the drop; a flow that ends decides about no frame.
    assert_eq!(live.frame(4_000, b"fine"), Fate::default());
}

#[test]
fn a_flow_that_passes_is_told() {
    let mut live = Live::new(
        "pass:flow udp any any -> any 6000 (content:\"good\"; sid:1;)\n\
         drop udp any any -> any 6000 (content:\"bad\"; sid:2;)\n",
    );
    assert!(!live.frame(0, b"fine").passes);
    assert!(live.frame(1, b"good").passes);
    assert_eq!(live.frame(2, b"bad"), Fate { passes: true, ..Fate::default() });
}

#[test]
fn bits_of_flows_and_addresses_outlive_other_rules() {
    let set = "alert udp any any -> any any (content:\"set\"; flowbits:set,mine; \
               xbits:set,his,track ip_src; sid:1;)\n";
    let others = "alert udp any any -> any any (content:\"zzz\"; flowbits:set,another; \
                  xbits:set,other,track ip_src; sid:5;)\n";
    let test = "alert udp any any -> any any (content:\"ask\"; flowbits:isset,mine; sid:2;)\n\
                alert udp any any -> any any (content:\"ask\"; xbits:isset,his,track ip_src; sid:3;)\n";
    let mut live = Live::new(set);
    live.frame(0, b"set");
    assert_eq!(live.alerts(), [1]);
    // The rules that set the bits are gone, and others would have their numbers.
    live.reload(&format!("{others}{test}{set}"));
    live.frame(1, b"ask");
    assert_eq!(live.alerts(), [2, 3]);
    live.reload(&format!("{test}{others}"));
    live.frame(2, b"ask");
    assert_eq!(live.alerts(), [2, 3]);
    assert_eq!(live.program.generation, 2);
}

#[test]
fn limits_of_alerts_outlive_a_reload() {
    let rule = "alert udp any any -> any any (content:\"word\"; \
                threshold:type limit, track by_src, count 1, seconds 600; sid:1;)\n";
    let mut live = Live::new(rule);
    live.frame(0, b"word");
    live.reload(rule);
    live.frame(1, b"word");
    assert_eq!(live.alerts(), [1]);
}

#[test]
fn flows_end_although_no_packets_come() {
    let mut live = Live::new("alert udp any any -> any any (content:\"word\"; sid:1;)\n");
    live.frame(0, b"word");
    assert_eq!(live.pipeline.load().flows, 1);
    let now = |seconds: i64| Time { seconds: 1_700_000_000 + seconds, micros: 0 };
    live.pipeline.expire(now(1), 100, &mut on_packet(|_| {}));
    assert_eq!(live.pipeline.load().flows, 1);
    live.pipeline.expire(now(4_000), 100, &mut on_packet(|_| {}));
    assert_eq!(live.pipeline.load().flows, 0);
}

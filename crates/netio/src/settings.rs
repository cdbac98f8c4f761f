//! Settings by their names in suricata.yaml: `af-packet.N.*` of an interface, `nfq.*`.

use gauntlet_packet::units;

/// What becomes of packets that are accepted (`nfq.mode`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueMode {
    /// No rule behind the queue sees them.
    #[default]
    Accept,
    /// The firewall looks at them from the beginning, with another mark.
    Repeat,
    /// They go to another queue.
    Route,
}

/// How frames are shared out to threads (`cluster-type`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Cluster {
    /// Both directions of a flow to one thread.
    #[default]
    Flow,
    /// By the CPU that received the frame.
    Cpu,
    /// By the queue of the network card.
    Queue,
    RoundRobin,
    Random,
}

/// Settings of NFQUEUE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// `nfq.mode`.
    pub mode: QueueMode,
    /// `nfq.repeat-mark`, `nfq.repeat-mask`.
    pub repeat_mark: u32,
    /// Which bits of the mark it sets.
    pub repeat_mask: u32,
    /// `nfq.bypass-mark`, `nfq.bypass-mask`.
    pub bypass_mark: u32,
    /// Which bits of the mark it sets; 0: flows are never bypassed.
    pub bypass_mask: u32,
    /// `nfq.route-queue`.
    pub route_queue: u16,
    /// `nfq.batchcount`: packets of one verdict at most.
    pub batch: u16,
    /// `nfq.fail-open`: packets pass if the queue is full.
    pub fail_open: bool,
    /// `nfq.queue-length` (ours): packets that wait for a verdict at most.
    pub length: u32,
}

/// Settings of ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `cluster-id`: names the group of sockets that share an interface's frames; the second side
    /// of a bridge has the next one.
    pub cluster_id: u16,
    pub(crate) cluster: Cluster,
    /// `defrag`: the kernel puts fragments together before it shares them out (capture alone).
    pub defrag: bool,
    /// `threads`, where it is a number.
    pub threads: Option<usize>,
    /// `ring-size`: frames of 2 KiB for which the ring of a thread has room.
    pub ring_frames: usize,
    /// `block-size`: bytes of a block; a longer frame is cut.
    pub block_bytes: usize,
    /// `block-timeout`: milliseconds after which a block that is not full is handed over.
    pub block_millis: u32,
    /// `buffer-size`: bytes that may wait in a socket without a ring.
    pub buffer_bytes: Option<u32>,
    /// `disable-promisc` is `no`.
    pub promiscuous: bool,
    /// `checksum-checks` is not `no`.
    pub checksums: bool,
    /// NFQUEUE.
    pub queue: QueueSettings,
}

/// Limits of what a ring may be.
const RING_FRAMES_MAX: usize = 1 << 20;
const BLOCK_BYTES_MAX: usize = 64 << 20;
/// A block holds the longest frame with its header.
const BLOCK_BYTES_MIN: usize = 128 << 10;
/// Suricata's `nfq.batchcount` has the same limit.
const BATCH_MAX: u16 = 255;

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_id: 99,
            cluster: Cluster::Flow,
            defrag: true,
            threads: None,
            ring_frames: 32_768,
            block_bytes: 1 << 20,
            block_millis: 10,
            buffer_bytes: None,
            promiscuous: true,
            checksums: true,
            queue: QueueSettings {
                mode: QueueMode::Accept,
                repeat_mark: 1,
                repeat_mask: 1,
                bypass_mark: 0,
                bypass_mask: 0,
                route_queue: 0,
                batch: BATCH_MAX,
                fail_open: false,
                length: 8_192,
            },
        }
    }
}

impl Settings {
    /// Sets what suricata.yaml calls so below an interface (`cluster-id`). Whether key and value
    /// were understood.
    pub fn set_interface(&mut self, key: &str, value: &str) -> bool {
        let value = value.trim();
        let size = || units::bytes(value).and_then(|bytes| usize::try_from(bytes).ok());
        match key {
            "cluster-id" => put(&mut self.cluster_id, value.parse().ok()),
            "cluster-type" => put(&mut self.cluster, cluster(value)),
            "defrag" => put(&mut self.defrag, units::truth(value)),
            "threads" if value == "auto" => true,
            "threads" => put(&mut self.threads, value.parse().ok().map(Some)),
            "ring-size" => {
                let within = |frames: &usize| (1..=RING_FRAMES_MAX).contains(frames);
                put(&mut self.ring_frames, value.parse().ok().filter(within))
            }
            "block-size" => {
                let within = |bytes: &usize| *bytes <= BLOCK_BYTES_MAX;
                let whole = |bytes: usize| bytes.max(BLOCK_BYTES_MIN).next_power_of_two();
                put(&mut self.block_bytes, size().filter(within).map(whole))
            }
            "block-timeout" => put(&mut self.block_millis, value.parse().ok().filter(|ms| *ms > 0)),
            "buffer-size" => {
                let bytes = size().and_then(|bytes| i32::try_from(bytes).ok());
                put(&mut self.buffer_bytes, bytes.map(|bytes| Some(bytes as u32)))
            }
            "disable-promisc" => put(&mut self.promiscuous, units::truth(value).map(|off| !off)),
            "checksum-checks" if matches!(value, "kernel" | "auto") => true,
            "checksum-checks" => put(&mut self.checksums, units::truth(value)),
            // A ring is always mapped, and of the third kind where there is one.
            "use-mmap" | "tpacket-v3" => units::truth(value).is_some(),
            _ => false,
        }
    }

    /// Sets what suricata.yaml calls so (`nfq.mode`). Whether key and value were understood.
    pub fn set_queue(&mut self, key: &str, value: &str) -> bool {
        let value = value.trim();
        let queue = &mut self.queue;
        match key {
            "nfq.mode" => put(&mut queue.mode, mode(value)),
            "nfq.repeat-mark" => put(&mut queue.repeat_mark, number(value)),
            "nfq.repeat-mask" => put(&mut queue.repeat_mask, number(value)),
            "nfq.bypass-mark" => put(&mut queue.bypass_mark, number(value)),
            "nfq.bypass-mask" => put(&mut queue.bypass_mask, number(value)),
            "nfq.route-queue" => put(&mut queue.route_queue, value.parse().ok()),
            "nfq.batchcount" => {
                put(&mut queue.batch, value.parse().ok().map(|most: u16| most.clamp(1, BATCH_MAX)))
            }
            "nfq.fail-open" => put(&mut queue.fail_open, units::truth(value)),
            "nfq.queue-length" => {
                put(&mut queue.length, value.parse().ok().filter(|length| *length > 0))
            }
            _ => false,
        }
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> bool {
    value.map(|value| *place = value).is_some()
}

fn cluster(value: &str) -> Option<Cluster> {
    Some(match value {
        "cluster_flow" => Cluster::Flow,
        "cluster_cpu" => Cluster::Cpu,
        "cluster_qm" => Cluster::Queue,
        "cluster_round_robin" => Cluster::RoundRobin,
        "cluster_random" => Cluster::Random,
        _ => return None,
    })
}

fn mode(value: &str) -> Option<QueueMode> {
    Some(match value {
        "accept" => QueueMode::Accept,
        "repeat" => QueueMode::Repeat,
        "route" => QueueMode::Route,
        _ => return None,
    })
}

/// A number, also with `0x`.
fn number(value: &str) -> Option<u32> {
    match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

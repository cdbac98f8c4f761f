//! Settings by their names in suricata.yaml.

use crate::units::{bytes, truth};

use super::settings::{
    CHUNK_BYTES, Choice, Chosen, ExceptionPolicy, RANDOM_PERCENT, Settings, UrgentPolicy,
};

impl Settings {
    /// What holds where the file has no section `stream`.
    pub fn built_in() -> Self {
        Self {
            depth: 0,
            urgent: UrgentPolicy::Inline,
            urgent_limit: UrgentPolicy::Inline,
            ..Self::default()
        }
    }

    /// Sets what suricata.yaml calls so (`stream.midstream`, `exception-policy` ...). Whether key
    /// and value were understood. After the last, call [`Settings::resolve`].
    pub fn set(&mut self, key: &str, value: &str) -> bool {
        let value = value.trim();
        if let Some(host) = key.strip_prefix("host-os-policy.") {
            return self.hosts.set(host, value);
        }
        let chosen = &mut self.chosen;
        match key {
            "exception-policy" => put(&mut chosen.master, choice(value).map(Some)),
            "stream.midstream-policy" => put(&mut chosen.midstream, choice(value).map(Some)),
            "stream.memcap-policy" => put(&mut chosen.session_memory, choice(value).map(Some)),
            "stream.reassembly.memcap-policy" => {
                put(&mut chosen.reassembly_memory, choice(value).map(Some))
            }
            "app-layer.error-policy" => put(&mut chosen.parser_error, choice(value).map(Some)),
            "stream.inline" if value == "auto" => put(&mut chosen.inline, Some(None)),
            "stream.inline" => put(&mut chosen.inline, truth(value).map(Some)),
            "stream.drop-invalid" => put(&mut self.drop_invalid, truth(value)),
            "stream.midstream" => put(&mut self.midstream, truth(value)),
            "stream.async-oneside" => put(&mut self.async_oneside, truth(value)),
            "stream.checksum-validation" => put(&mut self.validate_checksums, truth(value)),
            "stream.bypass" => put(&mut self.bypass, truth(value)),
            "stream.liberal-timestamps" => put(&mut self.liberal_timestamps, truth(value)),
            "stream.max-syn-queued" => put(&mut self.syn_queued_max, value.parse().ok()),
            "stream.max-synack-queued" => put(&mut self.synack_queued_max, value.parse().ok()),
            "stream.memcap" => put(&mut self.session_bytes_max, bytes(value)),
            _ => self.set_reassembly(key, value),
        }
    }

    fn set_reassembly(&mut self, key: &str, value: &str) -> bool {
        let Some(key) = key.strip_prefix("stream.reassembly.") else {
            return false;
        };
        let chosen = &mut self.chosen;
        let [to_server, to_client] = &mut chosen.chunk_bytes;
        let small = || bytes(value).and_then(|size| u16::try_from(size).ok());
        match key {
            "memcap" => put(&mut self.reassembly_bytes_max, bytes(value)),
            "depth" => put(&mut self.depth, bytes(value).and_then(|size| u32::try_from(size).ok())),
            "toserver-chunk-size" => put(to_server, small().map(Some)),
            "toclient-chunk-size" => put(to_client, small().map(Some)),
            "randomize-chunk-size" => put(&mut chosen.random_chunks, truth(value).map(Some)),
            "randomize-chunk-range" => {
                let percent = value.parse().ok().filter(|percent| *percent < 100);
                put(&mut chosen.random_percent, percent.map(Some))
            }
            "raw" => put(&mut self.raw, truth(value)),
            "check-overlap-different-data" => put(&mut self.check_overlaps, truth(value)),
            "max-regions" => put(&mut self.regions_max, value.parse().ok()),
            "urgent.policy" => put(&mut self.urgent, urgent(value)),
            "urgent.oob-limit-policy" => put(
                &mut self.urgent_limit,
                urgent(value).filter(|&policy| policy != UrgentPolicy::OutOfBand),
            ),
            _ => false,
        }
    }

    /// Of one of several engines, which share the memory.
    #[must_use]
    pub fn share(mut self, engines: u64) -> Self {
        self.session_bytes_max = self.session_bytes_max.div_ceil(engines.max(1));
        self.reassembly_bytes_max = self.reassembly_bytes_max.div_ceil(engines.max(1));
        self
    }

    /// Says what `auto` means: whether the engine may drop packets (`ips`) decides.
    pub fn resolve(&mut self, ips: bool) {
        let chosen = self.chosen.clone();
        self.ips = ips;
        self.inline = chosen.inline.unwrap_or(ips);
        let policy = |own: Option<Choice>, midstream: bool| chosen.policy(own, ips, midstream);
        self.midstream_policy = policy(chosen.midstream, self.midstream);
        self.session_memory_policy = policy(chosen.session_memory, false);
        self.reassembly_memory_policy = policy(chosen.reassembly_memory, false);
        self.parser_error_policy = policy(chosen.parser_error, false);
        self.chunk_bytes = chosen.chunk_bytes.map(|size| chosen.least_chunk(size));
    }

    /// `exception-policy` as it was set, for what else depends on it.
    pub(crate) fn memory_policy(&self, own: Option<Choice>) -> ExceptionPolicy {
        self.chosen.policy(own, self.ips, false)
    }
}

impl Chosen {
    /// The least size of a chunk that Suricata could choose.
    fn least_chunk(&self, size: Option<u16>) -> u16 {
        let size = size.unwrap_or(CHUNK_BYTES);
        if self.random_chunks == Some(false) {
            return size;
        }
        let percent = self.random_percent.unwrap_or(RANDOM_PERCENT);
        let less = u32::from(size) * u32::from(percent) / 200;
        size - u16::try_from(less).unwrap_or(0)
    }

    fn policy(&self, own: Option<Choice>, ips: bool, midstream: bool) -> ExceptionPolicy {
        let automatic =
            if ips && !midstream { ExceptionPolicy::DropFlow } else { ExceptionPolicy::Ignore };
        match (own, self.master) {
            (Some(own), _) => own.unwrap_or(automatic),
            (None, Some(Some(ExceptionPolicy::DropPacket | ExceptionPolicy::DropFlow))) if !ips => {
                ExceptionPolicy::Ignore
            }
            (None, Some(master)) => master.unwrap_or(automatic),
            (None, None) => automatic,
        }
    }
}

/// A policy; `auto` is `Some(None)`.
pub(crate) fn choice(value: &str) -> Option<Choice> {
    if value == "auto" { Some(None) } else { ExceptionPolicy::from_name(value).map(Some) }
}

fn urgent(value: &str) -> Option<UrgentPolicy> {
    Some(match value {
        "inline" => UrgentPolicy::Inline,
        "drop" => UrgentPolicy::Drop,
        "oob" => UrgentPolicy::OutOfBand,
        "gap" => UrgentPolicy::Gap,
        _ => return None,
    })
}

fn put<T>(place: &mut T, value: Option<T>) -> bool {
    value.map(|value| *place = value).is_some()
}

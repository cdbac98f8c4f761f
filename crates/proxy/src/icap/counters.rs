//! Numbers of the ICAP service.

use crate::counters::Counter;

/// What happened since the start.
#[derive(Debug, Default)]
pub struct IcapCounters {
    /// Connections of ICAP clients that were taken.
    pub connections: Counter,
    /// Connections now.
    pub connections_now: Counter,
    /// Connections beyond `icap.connections_max`: answered with 503, or closed.
    pub connections_refused: Counter,
    /// Requests by method.
    pub options: Counter,
    /// Requests by method.
    pub reqmod: Counter,
    /// Requests by method.
    pub respmod: Counter,
    /// Answers with 100: more than the preview was wanted.
    pub continued: Counter,
    /// Answers with 204: as it came, and not sent back.
    pub unmodified: Counter,
    /// Answers with 200 that gave back what came.
    pub echoed: Counter,
    /// Answers with 200 whose body an inspector may have changed.
    pub changed: Counter,
    /// Answers with 200 that had a page or a redirection.
    pub satisfied: Counter,
    /// Pages because a rule blocks.
    pub blocked: Counter,
    /// Bodies that ended before their end, since an inspector blocked or a client broke off.
    pub cut: Counter,
    /// Answers with 4xx and 5xx.
    pub errors: Counter,
    /// Connections closed since nothing passed.
    pub stalled: Counter,
    /// Bytes of bodies from clients.
    pub bytes_from_clients: Counter,
    /// Bytes of bodies to clients.
    pub bytes_to_clients: Counter,
}

impl IcapCounters {
    /// All numbers by their names.
    pub fn all(&self) -> Vec<(String, u64)> {
        [
            ("icap_connections", &self.connections),
            ("icap_connections_now", &self.connections_now),
            ("icap_connections_refused", &self.connections_refused),
            ("icap_options", &self.options),
            ("icap_reqmod", &self.reqmod),
            ("icap_respmod", &self.respmod),
            ("icap_continued", &self.continued),
            ("icap_unmodified", &self.unmodified),
            ("icap_echoed", &self.echoed),
            ("icap_changed", &self.changed),
            ("icap_satisfied", &self.satisfied),
            ("icap_blocked", &self.blocked),
            ("icap_cut", &self.cut),
            ("icap_errors", &self.errors),
            ("icap_stalled", &self.stalled),
            ("icap_bytes_from_clients", &self.bytes_from_clients),
            ("icap_bytes_to_clients", &self.bytes_to_clients),
        ]
        .map(|(name, counter)| (name.to_owned(), counter.get()))
        .into()
    }
}

//! Settings of traces for OpenTelemetry.

use serde::{Deserialize, Serialize};

use super::error::ConfigError;

/// Most messages that may wait for the task that sends traces.
const QUEUE_MAX: usize = 1_000_000;

/// Traces of messages for an OpenTelemetry collector; read at the start of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TraceSettings {
    /// Where the collector takes OTLP over HTTP: `http://127.0.0.1:4318`, or `https://…`. Empty
    /// sends none.
    pub otlp: String,
    /// Share of the messages that are traced, 0 to 1.
    pub sample: f64,
    /// Messages that wait to be sent; further ones are not traced.
    pub queue_max: usize,
}

impl Default for TraceSettings {
    fn default() -> Self {
        TraceSettings { otlp: String::new(), sample: 1.0, queue_max: 4_096 }
    }
}

impl TraceSettings {
    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let local = ["http://127.0.0.1", "http://[::1]", "http://localhost"];
        let is_known = self.otlp.starts_with("https://")
            || local.iter().any(|start| self.otlp.starts_with(start));
        if !self.otlp.is_empty() && !is_known {
            let message = "https://…, or http:// on this machine (127.0.0.1, [::1], localhost)";
            return Err(ConfigError::invalid("traces.otlp", message.to_owned()));
        }
        if !(0.0..=1.0).contains(&self.sample) {
            let message = format!("{} is not between 0 and 1", self.sample);
            return Err(ConfigError::invalid("traces.sample", message));
        }
        if !(1..=QUEUE_MAX).contains(&self.queue_max) {
            let message = format!("{} is not between 1 and {QUEUE_MAX}", self.queue_max);
            return Err(ConfigError::invalid("traces.queue_max", message));
        }
        Ok(())
    }
}

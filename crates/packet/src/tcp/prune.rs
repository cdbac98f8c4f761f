//! What nobody needs any more of a stream is forgotten.

use crate::address::Direction;

use super::session::Session;
use super::settings::Settings;
use super::state::State;

impl Session {
    /// Forgets what was inspected of a direction; to be called after detection, with each packet
    /// of an established session, for the packet's direction. `left_edge`: what later stages
    /// still need from (frames), an offset in the stream.
    pub fn prune(&mut self, direction: Direction, left_edge: Option<u64>, settings: &Settings) {
        let side = self.side(direction);
        if side.no_reassembly {
            return;
        }
        if side.depth_reached || (self.app_disabled && side.no_raw) {
            let side = self.side_mut(direction);
            side.no_reassembly = true;
            side.segments.clear();
            side.buffer.clear();
        } else {
            let edge = self.left_edge(direction, left_edge, settings);
            let side = self.side_mut(direction);
            if let Some(slide) = edge.checked_sub(side.base_offset()).filter(|&by| by > 0) {
                side.buffer.slide(edge);
                let slide = u32::try_from(slide & u64::from(u32::MAX)).unwrap_or(0);
                side.base = side.base.wrapping_add(slide);
                side.app_progress = side.app_progress.max(edge);
                side.raw_progress = side.raw_progress.max(edge);
            }
            if side.detected {
                let base = side.base_offset();
                side.segments.prune(base);
            }
        }
        self.count_memory();
    }

    fn left_edge(&self, direction: Direction, frames: Option<u64>, settings: &Settings) -> u64 {
        let side = self.side(direction);
        let app = (!self.app_disabled).then_some(match frames {
            Some(edge) => edge,
            None => side.app_progress,
        });
        let mut raw = side.raw_progress;
        if settings.inline {
            let chunk = settings.chunk_bytes.get(direction.index()).copied().unwrap_or(0);
            raw = raw.saturating_sub(u64::from(chunk));
        }
        if app.is_some() && self.state < State::Closed {
            raw = raw.saturating_sub(u64::from(side.inspect_depth));
        }
        let edge = match (side.no_raw, app) {
            (false, Some(app)) => app.min(raw),
            (false, None) => raw,
            (true, Some(app)) => app,
            (true, None) => side.buffer.consecutive_end(),
        };
        let mut edge = edge.min(side.acknowledged_offset());
        if !settings.inline && settings.check_overlaps {
            let window = if side.window == 0 { 4096 } else { side.window };
            edge = edge.saturating_sub(u64::from(window));
        }
        if edge > 0 && !side.detected {
            // Protocol detection may want to see it from the first segment on.
            if let Some((_, stored)) = side.segments.iter().next() {
                edge = edge.min(stored.offset);
            }
        }
        edge
    }
}

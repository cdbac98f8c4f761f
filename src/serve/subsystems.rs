//! What runs beside the mail of a node, as `gauntlet status` and `/metrics` tell about it.

use std::sync::{Arc, Weak};

use gauntlet_gateway::Node;
use gauntlet_gateway::node::subsystems::{ArrayStatus, Subsystems};

use super::Paths;
use super::packets::Packets;
use crate::array::member::Membership;
use crate::channel::watch::Channels;
use crate::web::WebPath;

/// Lets a node tell of these subsystems, too.
pub(super) fn register(node: &Node, (web, packets, array): &Paths, channels: &Channels) {
    node.set_subsystems(Box::new(Running {
        web: web.as_ref().map(Arc::downgrade),
        packets: packets.as_ref().map(Arc::downgrade),
        channels: channels.clone(),
        array: array.as_ref().map(Arc::downgrade),
    }));
}

/// The subsystems, which end before the node does: it does not keep them.
struct Running {
    web: Option<Weak<WebPath>>,
    packets: Option<Weak<Packets>>,
    channels: Channels,
    array: Option<Weak<Membership>>,
}

fn running<T>(subsystem: Option<&Weak<T>>) -> Option<Arc<T>> {
    subsystem.and_then(Weak::upgrade)
}

impl Subsystems for Running {
    fn array(&self) -> Option<ArrayStatus> {
        running(self.array.as_ref()).map(|array| array.status())
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        if let Some(web) = running(self.web.as_ref()) {
            text.push_str(&web.metrics());
        }
        if let Some(packets) = running(self.packets.as_ref()) {
            text.push_str(&packets.metrics());
        }
        text.push_str(&self.channels.metrics());
        if let Some(array) = running(self.array.as_ref()) {
            text.push_str(&array.metrics());
        }
        text
    }
}

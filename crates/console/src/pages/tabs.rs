//! Tabs that the pages about the node and its users share.

use crate::text::{t, translatable};
use maud::{Markup, html};

/// Name and path of each page.
const TABS: [(&str, &str); 9] = [
    (translatable("Health"), "/health"),
    (translatable("Settings"), "/settings"),
    (translatable("Users"), "/users"),
    (translatable("Tokens"), "/tokens"),
    (translatable("Senders"), "/senders"),
    (translatable("Learning"), "/learning"),
    (translatable("Channels"), "/channels"),
    (translatable("Nodes"), "/nodes"),
    (translatable("Activity"), "/activity"),
];

/// The tabs, with the one at `path` marked.
pub(super) fn tabs(path: &str) -> Markup {
    html! {
        nav.tabs aria-label=(t("Manage")) {
            @for (name, to) in TABS {
                a href=(to) aria-current=[(to == path).then_some("page")] { (t(name)) }
            }
        }
    }
}

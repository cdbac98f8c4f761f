//! What belongs to the node and its people: the tabs that these pages share.

use maud::{Markup, html};

/// Name and path of each page.
const TABS: [(&str, &str); 6] = [
    ("Health", "/health"),
    ("Settings", "/settings"),
    ("People", "/users"),
    ("Tokens", "/tokens"),
    ("Senders", "/senders"),
    ("Activity", "/activity"),
];

/// The tabs, with the one at `path` marked.
pub(super) fn tabs(path: &str) -> Markup {
    html! {
        nav.tabs aria-label="Manage" {
            @for (name, to) in TABS {
                a href=(to) aria-current=[(to == path).then_some("page")] { (name) }
            }
        }
    }
}

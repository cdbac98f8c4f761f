//! What is around every page: head, navigation, notices; and the small parts that pages share.

use gauntlet_engine::Class;
use gauntlet_store::users::Role;
use maud::{DOCTYPE, Markup, html};

use crate::format;
use crate::visit::Visit;

/// A part of the navigation: name, path, whether a role sees it.
type Part = (&'static str, &'static str, fn(Role) -> bool);

const PARTS: [Part; 10] = [
    ("Overview", "/", |r| r != Role::User),
    ("Messages", "/messages", |r| r != Role::User),
    ("Quarantine", "/quarantine", |_| true),
    ("My mail", "/own", |r| r == Role::User),
    ("Queue", "/queue", |r| r == Role::Administrator),
    ("Policy", "/policy", |r| r == Role::Administrator),
    ("Rules", "/rules", |r| r == Role::Administrator),
    ("Reports", "/reports", |r| r != Role::User),
    ("Manage", "/health", |r| r == Role::Administrator),
    ("Account", "/account", |_| true),
];

/// A whole page for somebody who is signed in; `part` is the navigation's path.
pub(crate) fn page(visit: &Visit, part: &str, title: &str, body: &Markup) -> Markup {
    let navigation = html! {
        a.skip href="#main" { "Skip to content" }
        header.top {
            a.brand href="/" { (mark()) span { "Gauntlet" } }
            nav aria-label="Main" {
                @for (name, path, seen) in PARTS {
                    @if seen(visit.role()) {
                        a href=(path) aria-current=[(path == part).then_some("page")] { (name) }
                    }
                }
            }
            form.out method="post" action="/sign-out" {
                (token(visit))
                button.quiet type="submit" title={ "Signed in as " (visit.who()) } { "Sign out" }
            }
        }
    };
    document(title, &html! { (navigation) main id="main" tabindex="-1" { (notice(visit)) (body) } })
}

/// A page without navigation.
pub(crate) fn bare(title: &str, body: &Markup) -> Markup {
    document(title, &html! { main.bare id="main" { (body) } })
}

fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Gauntlet" }
                link rel="icon" href="/static/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/static/style.css";
                script src="/static/script.js" defer {}
            }
            body { (body) }
        }
    }
}

/// The sign: a gate of two posts, and one line that passes.
pub(crate) fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 24 24" width="24" height="24" aria-hidden="true" {
            path d="M5 21V5l7-3 7 3v16" {}
            path d="M9 21v-9h6v9" {}
            path.way d="M12 12v9" {}
        }
    }
}

/// Why something was not possible.
pub(crate) fn refusal(text: &str) -> Markup {
    html! {
        section.card.narrow {
            h1 { "Not possible" }
            p { (text) }
            p { a href="/" { "Back to the start" } }
        }
    }
}

/// The hidden field that every form of somebody signed in carries.
pub(crate) fn token(visit: &Visit) -> Markup {
    html! { input type="hidden" name="csrf" value=(visit.csrf()); }
}

/// What the action before came to. Only our own sentences, chosen by a code and a number.
fn notice(visit: &Visit) -> Markup {
    let (code, number) = visit.field("notice").split_once('-').unwrap_or_default();
    let n: u64 = number.parse().unwrap_or(0);
    let messages = if n == 1 { "message" } else { "messages" };
    let (good, text) = match code {
        "released" => (true, format!("{n} {messages} released.")),
        "deleted" => (true, format!("{n} {messages} deleted.")),
        "past" => (false, format!("{n} {messages} had been released or deleted before.")),
        "failed" => (false, format!("{n} {messages} could not be released, and still held.")),
        "none" => (false, "Nothing was selected.".to_owned()),
        "senders" => (true, "The list is changed; it counts from the next message on.".to_owned()),
        "policy" => (true, format!("Version {n} of the policy is in force.")),
        "policy_same" => (true, "Nothing changed: this policy was in force already.".to_owned()),
        "factor_off" => (true, "The second factor is off.".to_owned()),
        "own" => (true, "It counts from the next message on.".to_owned()),
        "users" | "tokens" => (true, "It is changed.".to_owned()),
        "queue" => (true, format!("Done for {n} {messages}.")),
        "stopped" => (true, "The replay is stopped.".to_owned()),
        "password" => (true, "Your password is changed.".to_owned()),
        _ => return html! {},
    };
    html! { p.notice.good[good].poor[!good] role="status" { (text) } }
}

/// A class as a coloured word.
pub(crate) fn class_pill(class: Class) -> Markup {
    html! { span class={ "pill class-" (class.name()) } { (class.name()) } }
}

/// A disposition or state as a word with a coloured dot.
pub(crate) fn state(name: &str) -> Markup {
    html! { span class={ "state state-" (name) } { (format::spaced(name)) } }
}

/// A select with an empty choice first.
pub(crate) fn select(name: &str, label: &str, value: &str, choices: &[&str]) -> Markup {
    html! {
        label { span { (label) }
            select name=(name) {
                option value="" { "any" }
                @for choice in choices {
                    option value=(choice) selected[*choice == value] { (format::spaced(choice)) }
                }
            }
        }
    }
}

/// A text field of a filter.
pub(crate) fn input(name: &str, label: &str, value: &str, kind: &str, hint: &str) -> Markup {
    html! {
        label { span { (label) }
            input type=(kind) name=(name) value=(value) placeholder=(hint) autocomplete="off"
                spellcheck="false" maxlength="300";
        }
    }
}

/// Links to the first and the next page of a list, with the filter kept.
pub(crate) fn pager(visit: &Visit, path: &str, next: Option<i64>) -> Markup {
    let kept = kept(visit);
    let first = !visit.field("after").is_empty();
    html! {
        nav.pager aria-label="Pages" {
            @if first { a.button href={ (path) "?" (kept) } { "Newest" } }
            @if let Some(next) = next {
                a.button href={ (path) "?" (kept) @if !kept.is_empty() { "&" } "after=" (next) }
                    rel="next" { "Older" }
            }
        }
    }
}

/// The query's fields that another page of the same list needs.
pub(crate) fn kept(visit: &Visit) -> String {
    let fields = visit.fields.iter().filter(|(name, value)| {
        !value.is_empty() && !["after", "notice", "csrf"].contains(&name.as_str())
    });
    let pairs =
        fields.map(|(name, value)| format!("{}={}", format::percent(name), format::percent(value)));
    pairs.collect::<Vec<_>>().join("&")
}

//! What is around every page: head, navigation, notices; and the small parts that pages share.

use gauntlet_store::users::Role;
use gauntlet_verdict::Class;
use maud::{DOCTYPE, Markup, Render, html};

use crate::app::App;
use crate::format;
use crate::request::RequestContext;
use crate::text::{self, plural, t, translatable};

/// A part of the navigation: name, path, whether a role sees it.
type Part = (&'static str, &'static str, fn(Role) -> bool);

const PARTS: [Part; 12] = [
    (translatable("Overview"), "/", |r| r != Role::User),
    (translatable("Messages"), "/messages", |r| r != Role::User),
    (translatable("Quarantine"), "/quarantine", |_| true),
    (translatable("My mail"), "/own", |r| r == Role::User),
    (translatable("Queue"), "/queue", |r| r == Role::Administrator),
    (translatable("Web"), "/web", |r| r == Role::Administrator),
    (translatable("Alerts"), "/alerts", |r| r == Role::Administrator),
    (translatable("Policy"), "/policy", |r| r == Role::Administrator),
    (translatable("Rules"), "/rules", |r| r == Role::Administrator),
    (translatable("Reports"), "/reports", |r| r != Role::User),
    (translatable("Manage"), "/health", |r| r == Role::Administrator),
    (translatable("Account"), "/account", |_| true),
];

/// A whole page for a signed-in user; `part` is the navigation's path.
pub(crate) fn page(
    request: &RequestContext,
    part: &str,
    title: impl Render,
    body: &Markup,
) -> Markup {
    let navigation = html! {
        a.skip href="#main" { (t("Skip to content")) }
        header.top {
            a.brand href="/" { (mark()) span { "Gauntlet" } }
            nav aria-label=(t("Main")) {
                @for (name, path, seen) in PARTS {
                    @if seen(request.role()) {
                        a href=(path) aria-current=[(path == part).then_some("page")] { (t(name)) }
                    }
                }
            }
            form.out method="post" action="/sign-out" {
                (token(request))
                button.quiet type="submit" title={ (t("Signed in as {}").with(request.login())) } { (t("Sign out")) }
            }
        }
    };
    document(
        title,
        &html! { (navigation) main id="main" tabindex="-1" { (notice(request)) (body) } },
    )
}

/// A page without navigation.
pub(crate) fn bare(title: impl Render, body: &Markup) -> Markup {
    document(title, &html! { main.bare id="main" { (body) } })
}

fn document(title: impl Render, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang=(t(text::LANGUAGE)) {
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

/// What the script shows above a list that renews itself when that fails: how old the list is, and
/// why. It goes on trying.
pub(crate) fn stale(is_live: bool) -> Markup {
    let shown = html! { time {} };
    html! {
        @if is_live {
            p.notice.poor role="alert" data-stale="node" hidden {
                (t("This list is as it was at {}: the node does not answer as it should. It is asked again every few seconds.").with(&shown))
            }
            p.notice.poor role="alert" data-stale="session" hidden {
                (t("This list is as it was at {}: you are signed out. {}").with(&shown)
                    .with(html! { a href="" { (t("Sign in")) } }))
            }
        }
    }
}

/// What is wrong with what pages show: mail of other nodes, while the array's database is away.
pub(crate) fn warnings(app: &App, request: &RequestContext) -> Markup {
    let warnings = app.state.node.warnings();
    html! {
        @if request.role() == Role::User {
            // Names of servers are nothing for users.
            @if !warnings.is_empty() {
                p.notice.poor role="alert" { (t("Some of your mail may be missing here at the moment.")) }
            }
        } @else {
            @for warning in &warnings { p.notice.poor role="alert" { (format::plain(warning)) } }
        }
    }
}

/// Why something was not possible.
pub(crate) fn refusal(text: impl Render) -> Markup {
    html! {
        section.card.narrow {
            h1 { (t("Not possible")) }
            p { (text) }
            p { a href="/" { (t("Back to the start")) } }
        }
    }
}

/// The hidden field that every form of a signed-in user carries (protection from CSRF).
pub(crate) fn token(request: &RequestContext) -> Markup {
    html! { input type="hidden" name="csrf" value=(request.csrf()); }
}

/// What the action before came to. Only our own sentences, chosen by a code and a number.
fn notice(request: &RequestContext) -> Markup {
    let (code, number) = request.field("notice").split_once('-').unwrap_or_default();
    let n: u64 = number.parse().unwrap_or(0);
    let (good, text) = match code {
        "released" => (true, plural(n, "{} message released.", "{} messages released.")),
        "deleted" => (true, plural(n, "{} message deleted.", "{} messages deleted.")),
        "past" => (
            false,
            plural(
                n,
                "{} message had been released or deleted before.",
                "{} messages had been released or deleted before.",
            ),
        ),
        "ordered" => (
            true,
            plural(
                n,
                "{} order is given; the node that holds the message has not answered yet.",
                "{} orders are given; the nodes that hold the messages have not answered yet.",
            ),
        ),
        "none" => (false, t("Nothing was selected.")),
        "senders" => (true, t("The list is changed; it counts from the next message on.")),
        "policy" => (true, t("Version {} of the policy is in force.").with(n)),
        "policy_same" => (true, t("Nothing changed: this policy was in force already.")),
        "factor_off" => (true, t("The second factor is off.")),
        "own" => (true, t("It counts from the next message on.")),
        "users" | "tokens" => (true, t("It is changed.")),
        "queue" => (true, plural(n, "Done for {} message.", "Done for {} messages.")),
        "queue_ordered" => (true, t("The other node has done it.")),
        "web_released" => (true, t("It is released, and passes from now on.")),
        "web_declined" => (true, t("It stays blocked.")),
        "web_revoked" => (true, t("It is blocked again, where a rule blocks it.")),
        "channels" => (true, t("It is done; the node follows within seconds.")),
        "stopped" => (true, t("The replay is stopped.")),
        "password" => (true, t("Your password is changed.")),
        _ => return html! {},
    };
    html! { p.notice.good[good].poor[!good] role="status" { (text) } }
}

/// A subject, or that there is none.
pub(crate) fn subject(subject: &str) -> Markup {
    html! { @if subject.trim().is_empty() { (t("(no subject)")) } @else { (subject) } }
}

/// A class as a coloured word.
pub(crate) fn class_pill(class: Class) -> Markup {
    html! { span class={ "pill class-" (class.name()) } { (t(class.name())) } }
}

/// A disposition or state as a word with a coloured dot.
pub(crate) fn state(name: &str) -> Markup {
    html! { span class={ "state state-" (name) } { (t(&format::spaced(name))) } }
}

/// A select with an empty choice first.
pub(crate) fn select(name: &str, label: impl Render, value: &str, choices: &[&str]) -> Markup {
    html! {
        label { span { (label) }
            select name=(name) {
                option value="" { (t("any")) }
                @for choice in choices {
                    option value=(choice) selected[*choice == value] { (t(&format::spaced(choice))) }
                }
            }
        }
    }
}

/// Fields of a filter that stand below "More", and are shown at once if one of them is set.
pub(crate) struct More<'a> {
    /// Their names.
    pub(crate) names: &'a [&'a str],
    /// The fields themselves.
    pub(crate) fields: Markup,
}

/// The form that searches a list; `actions` stand beside its buttons.
pub(crate) fn filter(
    request: &RequestContext,
    path: &str,
    fields: &Markup,
    more: &More<'_>,
    actions: &Markup,
) -> Markup {
    let open = more.names.iter().any(|name| !request.field(name).is_empty());
    html! {
        form.filter.card method="get" action=(path) role="search" {
            div.fields { (fields) }
            details open[open] {
                summary { (t("More")) }
                div.fields { (more.fields) }
            }
            div.actions {
                button.main type="submit" { (t("Find")) }
                a.button.quiet href=(path) { (t("Clear")) }
                (actions)
            }
        }
    }
}

/// A text field of a filter.
pub(crate) fn input(
    name: &str,
    label: impl Render,
    value: &str,
    kind: &str,
    hint: impl Render,
) -> Markup {
    html! {
        label { span { (label) }
            input type=(kind) name=(name) value=(value) placeholder=(hint) autocomplete="off"
                spellcheck="false" maxlength="300";
        }
    }
}

/// Links to the first and the next page of a list, with the filter kept.
pub(crate) fn pager(request: &RequestContext, path: &str, next: Option<i64>) -> Markup {
    let kept = kept(request);
    let first = !request.field("after").is_empty();
    html! {
        nav.pager aria-label=(t("Pages")) {
            @if first { a.button href={ (path) "?" (kept) } { (t("Newest")) } }
            @if let Some(next) = next {
                a.button href={ (path) "?" (kept) @if !kept.is_empty() { "&" } "after=" (next) }
                    rel="next" { (t("Older")) }
            }
        }
    }
}

/// The query's fields that another page of the same list needs.
pub(crate) fn kept(request: &RequestContext) -> String {
    let fields = request.fields.iter().filter(|(name, value)| {
        !value.is_empty() && !["after", "notice", "csrf"].contains(&name.as_str())
    });
    let pairs =
        fields.map(|(name, value)| format!("{}={}", format::percent(name), format::percent(value)));
    pairs.collect::<Vec<_>>().join("&")
}

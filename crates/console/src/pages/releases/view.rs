//! The page itself.

use gauntlet_store::web_releases::{StoredException, StoredRequest};
use maud::{Markup, html};

use crate::request::RequestContext;
use crate::text::{t, translatable};
use crate::{format, layout};

/// Times that something is released for: hours, and words. The first is what is chosen.
const TIMES: [(&str, &str); 7] = [
    ("24", translatable("a day")),
    ("1", translatable("an hour")),
    ("8", translatable("eight hours")),
    ("168", translatable("a week")),
    ("720", translatable("30 days")),
    ("2160", translatable("90 days")),
    ("", translatable("for good")),
];

/// What stands on it.
pub(super) struct Shown {
    pub(super) open: Vec<StoredRequest>,
    pub(super) open_in_all: u64,
    pub(super) exceptions: Vec<StoredException>,
    pub(super) decided: Vec<StoredRequest>,
}

pub(super) fn page(request: &RequestContext, shown: &Shown) -> Markup {
    html! {
        p.crumbs { a href="/web" { (t("Web")) } }
        h1 { (t("Release requests")) }
        p.lead { (t("Who gets the page of a block may ask for release. What you release passes within seconds, whatever rule of the policy blocks or warns of it; what looks into content (viruses, words) still does.")) }
        @if shown.open.is_empty() { p.card { (t("Nobody waits for an answer.")) } }
        @for asked in &shown.open { (open(request, asked)) }
        @if shown.open_in_all > shown.open.len() as u64 {
            p.hint { (t("{} wait in all; the oldest follow when these are decided.").with(format::count(shown.open_in_all))) }
        }
        (exceptions(request, &shown.exceptions))
        (add(request))
        (decided(&shown.decided))
    }
}

fn open(request: &RequestContext, asked: &StoredRequest) -> Markup {
    let r = &asked.request;
    html! {
        section.card.release {
            h2 { (format::plain(&r.url)) }
            p { q { (format::plain(&r.reason)) } }
            p.more {
                (format::time(r.at_ms)) " · "
                @if r.client.is_empty() { (t("client not kept")) } @else { (format::plain(&r.client)) }
                @if !r.user.is_empty() { " · " (format::plain(&r.user)) }
                @if !r.mail.is_empty() { " · " a href={ "mailto:" (format::percent(&r.mail)) } { (format::plain(&r.mail)) } }
                " · " (t("blocked by {}").with(html! { b { (format::plain(&r.rule)) } }))
                " · " code { (r.reference) }
                @if asked.times > 1 { " · " (t("asked {} times").with(asked.times)) }
            }
            form.filter method="post" action="/web/releases" {
                (layout::token(request))
                input type="hidden" name="number" value=(asked.number);
                (terms(&suggested(&r.url), !r.client.is_empty() && !r.client.contains('/'), !r.user.is_empty()))
                div.actions {
                    button.main type="submit" name="do" value="approve" { (t("Release")) }
                    button type="submit" name="do" value="decline" { (t("Leave it blocked")) }
                }
            }
        }
    }
}

/// The host of what was asked for: most pages need more of their site than one address.
fn suggested(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let port = |(_, port): &(&str, &str)| port.bytes().all(|b| b.is_ascii_digit());
    authority.rsplit_once(':').filter(port).map_or(authority, |(host, _)| host).to_owned()
}

fn terms(target: &str, has_client: bool, has_user: bool) -> Markup {
    html! {
        div.fields {
            (layout::input("target", t("Host, .domain or beginning of a URL"), target, "text", "www.example.com"))
            label { span { (t("For")) }
                select name="for" {
                    option value="everybody" { (t("everybody")) }
                    @if has_client { option value="client" { (t("this client")) } }
                    @if has_user { option value="user" { (t("this user")) } }
                }
            }
            (time())
            (layout::input("note", t("Note"), "", "text", ""))
        }
    }
}

fn time() -> Markup {
    html! {
        label { span { (t("How long")) }
            select name="hours" {
                @for (hours, words) in TIMES { option value=(hours) { (t(words)) } }
            }
        }
    }
}

fn exceptions(request: &RequestContext, exceptions: &[StoredException]) -> Markup {
    html! {
        h2 { (t("Released")) }
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("What")) } th scope="col" { (t("For")) }
                th scope="col" { (t("Until")) } th scope="col" { (t("By")) }
                th scope="col" { (t("Note")) } th scope="col" { (t("Change")) }
            } }
            tbody {
                @for exception in exceptions { (exception_row(request, exception)) }
                @if exceptions.is_empty() { tr { td.empty colspan="6" { (t("Nothing is released.")) } } }
            }
        } }
    }
}

fn exception_row(request: &RequestContext, exception: &StoredException) -> Markup {
    let target = format::plain(&exception.target);
    html! {
        tr {
            td.what data-label=(t("What")) {
                span.url { (target) }
                div.more { a href={ "/web?rule=release%20" (exception.number) } { (t("release {}").with(exception.number)) } }
            }
            td data-label=(t("For")) { (whom(exception)) }
            td data-label=(t("Until")) {
                @match exception.until_ms {
                    Some(until) => (format::time(until)),
                    None => (t("for good")),
                }
            }
            td data-label=(t("By")) { (format::plain(&exception.by)) div.more { (format::time(exception.at_ms)) } }
            td data-label=(t("Note")) { (format::plain(&exception.note)) }
            td data-label=(t("Change")) { form method="post" action="/web/releases" {
                (layout::token(request))
                input type="hidden" name="number" value=(exception.number);
                button.quiet type="submit" name="do" value="revoke"
                    aria-label={ (t("Revoke {}").with(target)) } { (t("Revoke")) }
            } }
        }
    }
}

fn whom(exception: &StoredException) -> Markup {
    html! {
        @if !exception.client.is_empty() { (t("client {}").with(format::plain(&exception.client))) }
        @else if !exception.user.is_empty() { (t("user {}").with(format::plain(&exception.user))) }
        @else { (t("everybody")) }
    }
}

/// Releases something that nobody asked for here.
fn add(request: &RequestContext) -> Markup {
    html! {
        details.card {
            summary { h2 { (t("Release something else")) } }
            form.filter method="post" action="/web/releases" {
                (layout::token(request))
                div.fields {
                    (layout::input("target", t("Host, .domain or beginning of a URL"), "", "text", "www.example.com"))
                    label { span { (t("For")) }
                        select name="for" {
                            option value="everybody" { (t("everybody")) }
                            option value="client" { (t("one client")) }
                            option value="user" { (t("one user")) }
                        }
                    }
                    (layout::input("client", t("Client address"), "", "text", "192.0.2.1"))
                    (layout::input("user", t("Login"), "", "text", ""))
                    (time())
                    (layout::input("note", t("Note"), "", "text", ""))
                }
                div.actions { button.main type="submit" name="do" value="add" { (t("Release")) } }
            }
        }
    }
}

fn decided(decided: &[StoredRequest]) -> Markup {
    html! {
        @if !decided.is_empty() {
            h2 { (t("Decided")) }
            section.card.flush { table.cards {
                thead { tr {
                    th scope="col" { (t("When")) } th scope="col" { (t("Request")) }
                    th scope="col" { (t("Client")) } th scope="col" { (t("Status")) }
                    th scope="col" { (t("By")) } th scope="col" { (t("Note")) }
                } }
                tbody { @for asked in decided { (decided_row(asked)) } }
            } }
        }
    }
}

fn decided_row(asked: &StoredRequest) -> Markup {
    let r = &asked.request;
    html! {
        tr {
            td.when data-label=(t("When")) { @if let Some(at) = asked.decided_ms { (format::time(at)) } }
            td.what data-label=(t("Request")) { span.url { (format::plain(&r.url)) } div.more { (format::plain(&r.reason)) } }
            td data-label=(t("Client")) { (format::plain(&r.client)) " " (format::plain(&r.user)) }
            td data-label=(t("Status")) {
                (t(asked.state.name()))
                @if let Some(number) = asked.exception { div.more { (t("release {}").with(number)) } }
            }
            td data-label=(t("By")) { (format::plain(&asked.decided_by)) }
            td data-label=(t("Note")) { (format::plain(&asked.note)) }
        }
    }
}

/// Words for states.
const _: [&str; 2] = [translatable("approved"), translatable("declined")];

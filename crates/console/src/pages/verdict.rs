//! Why a message was judged as it was: the panels that the pages of messages and of held mail
//! share.

use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::{Evidence, Facts, Hit, Message, Part, View};
use gauntlet_store::users::Role;
use gauntlet_verdict::Verdict;
use maud::{Markup, html};

use crate::text::{Phrase, t, translatable};
use crate::{evidence, format, layout};

/// Most parts of a message shown.
const PARTS_MAX: usize = 50;
/// Most header fields shown.
const HEADERS_MAX: usize = 200;
/// Fields that mail servers write for the envelope's recipients, blind copies included.
const NAMES_RECIPIENTS: [&str; 10] = [
    "bcc",
    "resent-bcc",
    "delivered-to",
    "envelope-to",
    "x-delivered-to",
    "x-envelope-to",
    "x-original-to",
    "x-rcpt-to",
    "x-forwarded-to",
    "apparently-to",
];

/// Class, score, and what would have changed the class.
pub(crate) fn summary(verdict: &Verdict) -> Markup {
    html! {
        div.judgement {
            (layout::class_pill(verdict.class))
            span.big { (format::points(verdict.score)) small { " " (t("points")) } }
            @if let Some(p) = verdict.probability {
                span.big { (format!("{:.1}", p * 100.0)) small { " " (t("% likely unwanted")) } }
            }
        }
        @if !verdict.counterfactuals.is_empty() {
            h3 { (t("What would have changed it")) }
            ul.plain {
                @for other in &verdict.counterfactuals {
                    li {
                        @let rules = html! {
                            @for (i, rule) in other.without.iter().enumerate() {
                                @if i > 0 { ", " } code { (rule) }
                            }
                        };
                        (t("Without {} ({} points): {}").with(rules)
                            .with(format::points(other.points)).with(layout::class_pill(other.class)))
                    }
                }
            }
        }
    }
}

/// The rules that hit, most points first, with their evidence. Who may read the log is led to the
/// other messages that a rule hit.
pub(crate) fn hits(verdict: &Verdict, reader: Role) -> Markup {
    let mut hits: Vec<&Hit> = verdict.hits.iter().collect();
    hits.sort_by(|a, b| b.score.abs().total_cmp(&a.score.abs()).then_with(|| a.rule.cmp(&b.rule)));
    html! {
        table.cards.hits {
            thead { tr {
                th.number scope="col" { (t("Points")) } th scope="col" { (t("Rule")) }
                th scope="col" { (t("Evidence")) }
            } }
            tbody {
                @for hit in hits {
                    tr {
                        td.number data-label=(t("Points")) {
                            span.points.bad[hit.score > 0.0].good[hit.score < 0.0] {
                                @if hit.score > 0.0 { "+" } (format::points(hit.score))
                            }
                        }
                        td.rule {
                            @if reader == Role::User { b { code { (hit.rule) } } }
                            @else {
                                a href={ "/messages?rule=" (format::percent(&hit.rule)) } {
                                    code { (hit.rule) }
                                }
                            }
                            @if hit.count > 1 { span.more { " × " (hit.count) } }
                            @if !hit.description.is_empty() { p { (hit.description) } }
                        }
                        td.quotes { @for e in &hit.evidence { (quotation(e)) } }
                    }
                }
                @if verdict.hits.is_empty() { tr { td.empty colspan="3" { (t("No rule hit.")) } } }
            }
        }
    }
}

fn quotation(e: &Evidence) -> Markup {
    let place = match e.view {
        View::Text | View::SaBody => translatable("text"),
        View::Html | View::SaRawbody => translatable("HTML source"),
        View::Url => translatable("link"),
        View::Attachment => translatable("attachment"),
        View::Body => translatable("content"),
        View::Raw => translatable("message"),
        View::Envelope => translatable("envelope"),
        View::Header => translatable("header"),
        View::Object => translatable("file"),
        View::Facts => translatable("network"),
        View::Meta => translatable("rule"),
        View::Feature => translatable("feature"),
    };
    // A sentence of ours, which stands nowhere in the message.
    if e.view == View::Feature && !e.text.is_empty() {
        return html! { p.quote { (format::plain(&e.text)) } };
    }
    html! {
        p.quote {
            span.place { (t(place)) @if let Some(name) = &e.name { " " (format::plain(name)) } }
            @if !e.text.is_empty() {
                q { (format::plain(&e.text)) @if e.length as usize > e.text.len() { "…" } }
            }
        }
    }
}

/// What the parser found malformed in the message.
pub(crate) fn defects(verdict: &Verdict) -> Markup {
    html! {
        @if verdict.defects.is_empty() { p.hint { (t("None.")) } }
        ul.plain {
            @for defect in &verdict.defects {
                li { (format::spaced(&defect.kind.name()))
                    @if !defect.detail.is_empty() { ": " code { (format::plain(&defect.detail)) } }
                    @if defect.part > 0 { span.more { " " (t("part {}").with(defect.part)) } }
                }
            }
        }
    }
}

/// What the network said.
pub(crate) fn facts(facts: &Facts) -> Markup {
    let results = [
        (translatable("SPF"), facts.spf),
        (translatable("SPF of HELO"), facts.spf_helo),
        (translatable("DMARC"), facts.dmarc),
        (translatable("ARC"), facts.arc),
    ];
    html! {
        dl.pairs {
            @for (name, result) in results { dt { (t(name)) } dd { (auth(result)) } }
            @for signature in &facts.dkim {
                dt { "DKIM" } dd { (auth(signature.result)) " " (format::plain(&signature.domain)) }
            }
            @if let Some(name) = &facts.reverse_name {
                dt { (t("Reverse name")) } dd { (format::plain(name)) }
            }
            @if let Some(country) = &facts.country { dt { (t("Country")) } dd { (country) } }
            @for listing in &facts.listings {
                dt { (t("Listed")) }
                dd { (format::plain(&listing.zone)) ": " (format::plain(&listing.subject)) }
            }
            @for scan in &facts.anti_virus {
                dt { (format::plain(&scan.scanner)) }
                dd { @match &scan.found {
                    Some(name) => strong { (format::plain(name)) },
                    None if scan.failed => (t("failed")),
                    None => (t("clean")),
                } }
            }
        }
    }
}

fn auth(result: AuthResult) -> Markup {
    let name = format!("{result:?}").to_lowercase();
    html! { span class={ "auth auth-" (name) } { (t(&name)) } }
}

/// Time by filter, longest first.
pub(crate) fn costs(verdict: &Verdict) -> Markup {
    let mut costs: Vec<_> = verdict.costs.iter().collect();
    costs.sort_by(|a, b| b.micros.total_cmp(&a.micros));
    let total = verdict.cost_us();
    let longest = costs.first().map_or(1.0, |c| f64::from(c.micros).max(1.0));
    html! {
        table.costs {
            caption {
                (t("Time by filter, together {}. Ruleset {}")
                    .with(format::duration_us(total as u64))
                    .with(html! { code { (verdict.ruleset) } }))  }
            tbody {
                @for cost in costs {
                    tr {
                        th scope="row" { (cost.filter) }
                        td.bar { meter min="0" max=(longest) value=(cost.micros)
                            aria-hidden="true" {} }
                        td.number { (format!("{:.0} µs", cost.micros)) }
                    }
                }
            }
        }
    }
}

/// The message's text, part by part, with the evidence marked.
pub(crate) fn body(message: &Message<'_>, hits: &[Hit]) -> Markup {
    html! {
        @for (part, index) in message.parts().iter().zip(0u16..).take(PARTS_MAX) {
            @if !(part.is_container) { (part_panel(part, index, hits)) }
        }
        @if message.parts().len() > PARTS_MAX {
            p.hint { (t("{} more parts are not shown.").with(message.parts().len() - PARTS_MAX)) }
        }
    }
}

fn part_panel(part: &Part<'_>, index: u16, hits: &[Hit]) -> Markup {
    let kind = part.content_type.essence();
    let html_part = part.content_type.is("text", "html");
    html! {
        section.part {
            h3 { @match part.file_name() {
                Some(name) => { (t("Attachment")) " " code { (format::plain(name)) } },
                None if html_part => "HTML",
                None if part.text().is_none() => (t("Attachment")),
                None => (t("Text")),
            } span.more { " " (format::plain(&kind)) ", " (format::bytes(part.body().len() as u64)) } }
            @match part.text() {
                None => {},
                Some(source) if html_part => (html_panel(part, source, index, hits)),
                Some(text) => {
                    (scrolled("text", &t("Text"), &evidence::marked(text, hits, &TEXT_VIEWS, index, "")))
                }
            }
        }
    }
}

const TEXT_VIEWS: [View; 3] = [View::Text, View::Url, View::SaBody];
const SOURCE_VIEWS: [View; 3] = [View::Html, View::Url, View::SaRawbody];

fn html_panel(part: &Part<'_>, source: &str, index: u16, hits: &[Hit]) -> Markup {
    let rendered = part.shown_text().unwrap_or_default();
    let in_source = evidence::count(source, hits, &SOURCE_VIEWS, index, "");
    html! {
        @if rendered.trim().is_empty() {
            p.hint { (t("Shows no text.")) }
        } @else {
            (scrolled("text", &t("Text"), &evidence::marked(rendered, hits, &TEXT_VIEWS, index, "")))
        }
        details {
            summary { (t("Source"))
                @if in_source > 0 { span.more { (t(", evidence: {}").with(in_source)) } } }
            (scrolled(
                "text source",
                &t("Source"),
                &evidence::marked(source, hits, &SOURCE_VIEWS, index, ""),
            ))
        }
    }
}

/// Text that may be longer than its box: the keyboard reaches it, so that it can be scrolled
/// without a mouse.
fn scrolled(class: &str, name: &Phrase<'_>, text: &Markup) -> Markup {
    html! { pre class=(class) tabindex="0" role="region" aria-label=(name) { (text) } }
}

/// The header fields, decoded, with the evidence marked.
///
/// `for_user` leaves out what may name recipients whom the others should not know of.
pub(crate) fn headers(message: &Message<'_>, hits: &[Hit], for_user: bool) -> Markup {
    let shown = |name: &str| {
        !for_user || !NAMES_RECIPIENTS.iter().any(|hidden| name.eq_ignore_ascii_case(hidden))
    };
    html! {
        dl.headers {
            @for header in message.headers().iter().filter(|h| shown(&h.name_str())).take(HEADERS_MAX) {
                dt { (format::plain(&header.name_str())) }
                dd { (evidence::marked(&format::plain(&header.decoded()), hits, &[View::Header], 0,
                    &header.name_str())) }
            }
        }
    }
}

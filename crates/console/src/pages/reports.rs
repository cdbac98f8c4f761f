//! Reports: volume, accuracy, who sent and got most; for users, as CSV and as PDF.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use gauntlet_store::Role;
use maud::{Markup, html};

use super::query_fields::number;
use crate::app::App;
use crate::error::RequestError;
use crate::format;
use crate::layout;
use crate::plot::{self, Column};
use crate::report::web::{self, ClientsShown, WebReport};
use crate::report::{Accuracy, DAYS_MAX, Domain, Name, Report, csv, pdf, percent, report, span};
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};

/// Days of a report by default.
const DAYS_DEFAULT: i64 = 7;
/// Labels under the plot, at most.
const LABELS_MAX: usize = 8;

/// The report that a request asks for.
pub(crate) fn asked(app: &App, request: &RequestContext) -> Result<Report, RequestError> {
    let days = number(request, "days")?.unwrap_or(DAYS_DEFAULT);
    if !(1..=DAYS_MAX).contains(&days) {
        return Err(RequestError::Bad(format!("days: a whole number from 1 to {DAYS_MAX}")));
    }
    let until = super::query_fields::day(request, "until")?.unwrap_or(request.now_ms);
    let until = until.min(request.now_ms);
    let mut report = report(&*app.state.messages, days, until)?;
    // Who may see the web log sees what it comes to.
    let log = app.state.web_log.as_ref().filter(|_| request.role() == Role::Administrator);
    if let Some(log) = log {
        let (since_ms, end_ms) = span(days, until);
        let summary = log.summary(since_ms, end_ms)?;
        report.web = Some(WebReport::new(summary, clients_shown(app)));
    }
    Ok(report)
}

/// How the node's settings let clients stand in reports.
fn clients_shown(app: &App) -> ClientsShown {
    let settings = app.state.node.settings();
    let setting = settings.iter().find(|setting| setting.key == "web.log_clients");
    ClientsShown::of_setting(setting.map_or("", |setting| &setting.value))
}

/// `GET /reports`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let report = asked(app, request)?;
    let kept = layout::kept(request);
    let days = report.days.len();
    let body = html! {
        h1 { (t("Reports")) }
        p.lead { (t("{} to {} (UTC): {} messages, {}.").with(&report.since).with(&report.until).with(html! { b { (format::count(report.messages())) } }).with(format::bytes(report.bytes))) }
        (layout::warnings(app, request))
        form.filter.card method="get" action="/reports" {
            div.fields {
                label { span { (t("Days")) }
                    input type="number" name="days" min="1" max=(DAYS_MAX) value=(days); }
                (layout::input("until", t("Last day"), request.field("until"), "date", ""))
            }
            div.actions {
                button.main type="submit" { (t("Show")) }
                a.button.quiet href={ "/reports.csv?" (kept) } download { "CSV" }
                a.button.quiet href={ "/reports.pdf?" (kept) } download { "PDF" }
            }
        }
        section.card { h2 { (t("Messages a day")) } (volume(&report)) }
        div.halves {
            section.card { h2 { (t("Accuracy, by users' corrections")) } (accuracy(&report.accuracy)) }
            section.card { h2 { (t("Dispositions")) } (actions(&report)) }
        }
        section.card.flush { h2.inside { (t("Our domains")) } (domains(&report.domains)) }
        div.halves {
            section.card { h2 { (t("Top sender domains")) } (names(&report.senders, "domain")) }
            section.card { h2 { (t("Top recipients")) } (names(&report.recipients, "recipient")) }
            section.card { h2 { (t("Top rules")) } (names(&report.rules, "rule")) }
        }
        @if let Some(report) = &report.web { (of_web(report)) }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/reports", t("Reports"), &body)))
}

fn volume(report: &Report) -> Markup {
    let step = report.days.len().div_ceil(LABELS_MAX).max(1);
    let column = |(n, day): (usize, &crate::report::Day)| Column {
        label: if n % step == 0 {
            day.day.get(5..).unwrap_or("").to_owned()
        } else {
            String::new()
        },
        title: day.day.clone(),
        parts: day.classes.iter().map(|(c, n)| (*c, *n)).collect(),
    };
    let columns: Vec<Column> = report.days.iter().enumerate().map(column).collect();
    plot::stacked(t("Messages a day"), &columns)
}

fn accuracy(a: &Accuracy) -> Markup {
    html! {
        table.costs {
            caption { (t("Mail that no user corrected is not known: these are lower bounds")) }
            tbody {
                @for (what, n, of, share) in [
                    (translatable("Judged unwanted, wanted by users"), a.wrongly_unwanted, a.unwanted,
                        a.false_positives()),
                    (translatable("Judged wanted, unwanted by users"), a.wrongly_wanted, a.wanted,
                        a.false_negatives()),
                ] {
                    tr {
                        th scope="row" { (t(what)) }
                        td.number { (t("{} of {}").with(format::count(n)).with(format::count(of))) }
                        td.number { b {
                            @if let Some(share) = percent(share) { (share) } @else { (t("unknown")) }
                        } }
                    }
                }
            }
        }
    }
}

fn actions(report: &Report) -> Markup {
    html! {
        table.costs { tbody {
            @for (action, n) in &report.actions {
                tr { th scope="row" { (layout::state(action)) } td.number { (format::count(*n)) } }
            }
            @if report.actions.is_empty() { tr { td { (t("No messages yet.")) } } }
        } }
    }
}

fn domains(all: &[Domain]) -> Markup {
    let classes = gauntlet_verdict::Class::ALL;
    html! {
        table.cards {
            thead { tr {
                th scope="col" { (t("Domain")) }
                @for class in classes { th.number scope="col" { (t(class.name())) } }
                th.number scope="col" { (t("all")) }
            } }
            tbody {
                @for domain in all { tr {
                    td data-label=(t("Domain")) {
                        a href={ "/messages?domain=" (format::percent(&domain.domain)) } {
                            (format::plain(&domain.domain)) } }
                    @for class in classes {
                        td.number data-label=(t(class.name())) {
                            (format::count(domain.classes.get(&class).copied().unwrap_or(0))) }
                    }
                    td.number data-label=(t("all")) { b { (format::count(domain.messages())) } }
                } }
                @if all.is_empty() { tr { td.empty colspan="9" { (t("No messages yet.")) } } }
            }
        }
    }
}

fn names(names: &[Name], field: &str) -> Markup {
    let names: Vec<(String, u64)> = names.iter().map(|n| (n.name.clone(), n.messages)).collect();
    plot::tops(&names, |name| format!("/messages?{field}={}", format::percent(name)))
}

fn of_web(report: &WebReport) -> Markup {
    let fields = ["host", "host", "client", "rule", "category"];
    html! {
        h2 { (t("Web requests")) }
        p.lead {
            (t("{} requests, {} blocked, {} to clients.")
                .with(html! { b { (format::count(report.requests)) } })
                .with(format::count(report.blocked))
                .with(format::bytes(report.bytes_out)))
        }
        div.halves {
            @for ((title, counts, number), field) in report.tops().into_iter().zip(fields) {
                section.card {
                    h2 { (t(title)) }
                    @let names: Vec<(String, u64)> = counts.iter()
                        .map(|count| (web::name(count).to_owned(), number(count)))
                        .collect();
                    (plot::tops(&names, |name| format!("/web?{field}={}", format::percent(name))))
                }
            }
        }
    }
}

/// `GET /reports.csv`.
pub(crate) fn as_csv(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let report = asked(app, request)?;
    let name = file_name(&report, "csv");
    let body = Body::from(csv::csv(&report));
    Ok(attached(response::respond(StatusCode::OK, "text/csv; charset=utf-8", body), &name))
}

/// `GET /reports.pdf`.
pub(crate) fn as_pdf(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let report = asked(app, request)?;
    let name = file_name(&report, "pdf");
    let body = Body::from(pdf::pdf(&report, &app.state.node.status().name, &app.state.texts));
    Ok(attached(response::respond(StatusCode::OK, "application/pdf", body), &name))
}

fn file_name(report: &Report, ending: &str) -> String {
    format!("gauntlet-{}-{}.{ending}", report.since, report.until)
}

fn attached(mut response: Response, name: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

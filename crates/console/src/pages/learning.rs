//! What the node has learned from corrections and other good mail, and how its thresholds fit the
//! site's own mail.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_verdict::SiteCalibration;
use maud::{Markup, html};

use super::tabs;
use crate::app::App;
use crate::error::RequestError;
use crate::layout;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};

/// The classes that begin at a probability.
const _: [&str; 3] = [translatable("suspect"), translatable("spam"), translatable("explicit spam")];

/// `GET /learning`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let body = html! {
        h1 { (t("Learning")) }
        (tabs::tabs("/learning"))
        @match app.state.node.calibration() {
            None => {
                p.lead { (t("Nothing has been corrected yet, so the thresholds are those of the configuration. To correct a verdict, release or delete held mail with “Train the classifier” ticked, or use gauntlet learn.")) }
            }
            Some(found) => (calibration(&found)),
        }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/health", t("Learning"), &body)))
}

fn calibration(found: &SiteCalibration) -> Markup {
    html! {
        p.lead { (t("Corrections that stand: {}, of which {} of unwanted and {} of good mail. Their evidence counts {} times; below 1 says that they contradict each other.")
            .with(found.spam + found.good).with(found.spam).with(found.good).with(format!("{:.2}", found.trust))) }
        p { (t("The configuration promises how much good mail may reach a class. The probability in force keeps that on the good mail that is known here, judged by what had not seen it, and moves from the configured one only as far as there is such mail.")) }
        p { (t("It rests on corrections of good mail ({}), messages that were released without a correction ({}), and messages of known authors that DMARC proves ({}). The last two count as {} corrections together.")
            .with(found.good).with(found.released).with(found.known_authors)
            .with(format!("{:.1}", found.uncorrected_share))) }
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Class")) } th scope="col" { (t("Promised")) } th scope="col" { (t("Found")) }
                th scope="col" { (t("At most (95 %)")) } th scope="col" { (t("Probability in force")) }
                th scope="col" { (t("Keeps the promise (95 %)")) } th scope="col" { (t("Configured")) }
            } }
            tbody {
                @for check in &found.checks { tr {
                    td data-label=(t("Class")) { (t(&check.class)) }
                    td data-label=(t("Promised")) { (percent(check.promised)) }
                    td data-label=(t("Found")) { (percent(check.found)) }
                    td data-label=(t("At most (95 %)")) { (percent(check.found_max)) }
                    td data-label=(t("Probability in force")) { (probability(check.probability)) }
                    td data-label=(t("Keeps the promise (95 %)")) {
                        (t("{} to {}").with(probability(check.interval[0])).with(probability(check.interval[1]))) }
                    td data-label=(t("Configured")) { (probability(check.configured)) }
                } }
            }
        } }
    }
}

/// `0.02 %`
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent >= 1.0 { format!("{percent:.1} %") } else { format!("{percent:.2} %") }
}

fn probability(value: f64) -> String {
    // Explicit spam begins close to 1.
    if value > 0.9995 { format!("{value:.6}") } else { format!("{value:.4}") }
}

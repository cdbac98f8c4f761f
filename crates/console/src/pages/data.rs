//! What data loss prevention found in a message: a table, masked as it is in the log.

use gauntlet_verdict::{DataFinding, DataLoss};
use maud::{Markup, html};

use crate::format;
use crate::text::{t, translatable};

/// One row a finding.
pub(super) fn table(found: &DataLoss) -> Markup {
    let heads = [translatable("Data"), translatable("Number"), translatable("Places")];
    html! {
        @if found.findings.is_empty() { p.hint { (t("Nothing was found.")) } } @else {
            table {
                thead { tr { @for head in heads { th { (t(head)) } } } }
                tbody { @for finding in &found.findings { (row(finding)) } }
            }
        }
        @if found.is_cut {
            p.hint { (t("Not all of the message was looked through: a limit was reached, or a file could not be read.")) }
        }
    }
}

fn row(finding: &DataFinding) -> Markup {
    html! {
        tr {
            td {
                (format::plain(&finding.title()))
                @if finding.points > 0.0 { div.more { (t("{} points").with(finding.points)) } }
                @if finding.share > 0.0 {
                    div.more { (t("{} % of the document").with(format!("{:.1}", finding.share * 100.0))) }
                }
            }
            td.number { (finding.count) }
            td {
                @for place in &finding.evidence {
                    div { code { (format::plain(&place.masked)) } " " (format::plain(&place.place)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_verdict::DataEvidence;

    use super::*;

    #[test]
    fn findings_are_listed_as_they_are_masked() {
        let evidence = vec![DataEvidence {
            place: "<part> 1".into(),
            offset: 3,
            length: 19,
            masked: "4111 **** **** 1111".into(),
        }];
        let card = DataFinding {
            detector: "payment_card".into(),
            count: 3,
            evidence,
            ..Default::default()
        };
        let findings = vec![card];
        let page = table(&DataLoss { findings, is_cut: true }).into_string();
        assert!(page.contains("4111 **** **** 1111") && page.contains("payment_card"), "{page}");
        assert!(page.contains("&lt;part&gt; 1") && page.contains("Not all"), "{page}");
        let nothing = table(&DataLoss::default()).into_string();
        assert!(nothing.contains("Nothing was found"), "{nothing}");
    }
}

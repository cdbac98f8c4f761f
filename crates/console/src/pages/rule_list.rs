//! The policy's rules as a list with buttons, part of the editor's form.

use gauntlet_policy::edit::{self, Block};
use maud::{Markup, html};

use crate::format;
use crate::text::{t, translatable};

/// The rules of a text as a list with buttons; they belong to the form of the editor.
pub(super) fn list(text: &str) -> Markup {
    let Ok(blocks) = edit::blocks(text) else { return html! {} };
    let last = blocks.len().saturating_sub(1);
    html! {
        details.rules-list {
            summary { h2 { (t("Rules one by one")) } }
            p.hint { (t("Changes are made in the text above, and in force only after a check.")) }
            table.cards {
                thead { tr {
                    th scope="col" { (t("Rule")) } th scope="col" { (t("When")) } th scope="col" { (t("Actions")) }
                    th scope="col" { (t("Change")) }
                } }
                tbody {
                    @for (n, block) in blocks.iter().enumerate() { (row(n, block, last)) }
                }
            }
            div.actions {
                button type="submit" formaction="/policy/form" name="op" value="new-end" { (t("Add a rule at the end")) }
            }
        }
    }
}

fn row(n: usize, block: &Block, last: usize) -> Markup {
    let name = format::plain(&block.name);
    let button = |op: &str, sign: &str, what: &str| {
        html! {
            button.quiet.small type="submit" formaction="/policy/form" name="op" value={ (op) "-" (n) }
                aria-label={ (t(what)) ": " (name) } title=(t(what)) { (t(sign)) }
        }
    };
    html! {
        tr {
            td data-label=(t("Rule")) { b { (name) }
                span.more { " " (t(block.direction())) @if !block.enabled() { ", " (t("off")) } } }
            td data-label=(t("When")) { code { (format::plain(&block.when())) } }
            td data-label=(t("Actions")) { code { (format::plain(&block.actions())) } }
            td.tools data-label=(t("Change")) {
                (button("edit", translatable("Edit"), translatable("Edit")))
                @if n > 0 { (button("up", translatable("↑"), translatable("Move up"))) }
                @if n < last { (button("down", translatable("↓"), translatable("Move down"))) }
                (button("switch", if block.enabled() { translatable("Off") } else { translatable("On") },
                    if block.enabled() { translatable("Switch off") } else { translatable("Switch on") }))
                (button("new", translatable("+"), translatable("New rule before")))
                (button("delete", translatable("✕"), translatable("Delete")))
            }
        }
    }
}

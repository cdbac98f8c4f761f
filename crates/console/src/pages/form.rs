//! The policy's rules as a list, and one of them as a form. Every step works on the text that is being
//! edited; nothing is in force before it was checked and saved.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_policy::edit::{self, Block, ENDS, LIST_FIELDS, RuleForm};
use maud::{Markup, html};

use super::policy;
use crate::fault::Fault;
use crate::server::App;
use crate::text::{noted, t};
use crate::visit::{self, Visit};
use crate::{format, shell};

/// Classes, for the form's hint.
const CLASSES: &str = "spam, phishing";

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
                    th scope="col" { (t("Rule")) } th scope="col" { (t("When")) } th scope="col" { (t("Does")) }
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
            td data-label=(t("Does")) { code { (format::plain(&block.actions())) } }
            td.tools data-label=(t("Change")) {
                (button("edit", noted("Edit"), noted("Edit")))
                @if n > 0 { (button("up", noted("↑"), noted("Move up"))) }
                @if n < last { (button("down", noted("↓"), noted("Move down"))) }
                (button("switch", if block.enabled() { noted("Off") } else { noted("On") },
                    if block.enabled() { noted("Switch off") } else { noted("Switch on") }))
                (button("new", noted("+"), noted("New rule before")))
                (button("delete", noted("✕"), noted("Delete")))
            }
        }
    }
}

/// `POST /policy/form`: `op` with the number of a rule: `edit-3`, `up-3`, ..., `apply-3`, `insert-end`.
pub(crate) fn change(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let (text, base) = (visit.lines("text"), policy::base(visit)?);
    let blocks = match edit::blocks(&text) {
        Ok(blocks) => blocks,
        Err(error) => return Ok(policy::wrong(visit, &text, base, &error)),
    };
    let (op, place) = visit.field("op").split_once('-').unwrap_or_default();
    let number = place.parse::<usize>().ok();
    let shown_as = (text.as_str(), base, place);
    let Some(block) = number.and_then(|n| blocks.get(n)) else {
        return match (op, place) {
            ("new", "end") => Ok(page(visit, &text, base, place, &RuleForm::new(), None)),
            ("insert", "end") => take_over(app, visit, shown_as, None, |rule| {
                edit::with_rule_before(&text, None, rule)
            }),
            _ => Err(Fault::Bad("op: what to do and the number of a rule".to_owned())),
        };
    };
    let n = number.unwrap_or(0);
    let neighbour = |other: Option<usize>| other.and_then(|n| blocks.get(n));
    let none = || Fault::Bad("There is no rule to change places with.".to_owned());
    let new = match op {
        "edit" => return Ok(page(visit, &text, base, place, &RuleForm::of(block), Some(block))),
        "new" => return Ok(page(visit, &text, base, place, &RuleForm::new(), None)),
        "insert" => {
            return take_over(app, visit, shown_as, None, |rule| {
                edit::with_rule_before(&text, Some(block), rule)
            });
        }
        "apply" => {
            return take_over(app, visit, shown_as, Some(block), |rule| {
                edit::with_rule_instead(&text, block, rule)
            });
        }
        "up" => edit::with_swapped(&text, neighbour(n.checked_sub(1)).ok_or_else(none)?, block),
        "down" => edit::with_swapped(&text, block, neighbour(Some(n + 1)).ok_or_else(none)?),
        "switch" => edit::with_switched(&text, block),
        "delete" => edit::without(&text, block),
        _ => return Err(Fault::Bad("op: edit, new, up, down, switch or delete".to_owned())),
    };
    policy::checked(app, visit, &new, base)
}

/// Takes the rule of the form over, by the text that `with` makes with it; shows the form again if it makes none.
fn take_over(
    app: &App,
    visit: &Visit,
    (text, base, place): (&str, i64, &str),
    replaced: Option<&Block>,
    with: impl FnOnce(&str) -> String,
) -> Result<Response, Fault> {
    let form = read(visit);
    match form.to_toml() {
        Ok(rule) => policy::checked(app, visit, &with(&rule), base),
        Err(why) => Ok(shown(visit, text, base, place, &form, replaced, Some(&why))),
    }
}

/// The form's fields.
fn read(visit: &Visit) -> RuleForm {
    let text = |name: &str| visit.field(name).to_owned();
    let mut lists: [String; LIST_FIELDS.len()] = Default::default();
    for (place, (name, _)) in lists.iter_mut().zip(LIST_FIELDS) {
        *place = text(&format!("when_{name}"));
    }
    RuleForm {
        name: text("name"),
        direction: text("direction"),
        enabled: visit.field("enabled") == "yes",
        lists,
        score_min: text("score_min"),
        size_min: text("size_min"),
        attachment: text("attachment"),
        more_when: visit.lines("more_when"),
        end: text("end"),
        end_text: text("end_text"),
        tag_subject: text("tag_subject"),
        more_do: text("more_do"),
        stop: text("stop"),
        release: text("release"),
    }
}

fn page(
    visit: &Visit,
    text: &str,
    base: i64,
    place: &str,
    form: &RuleForm,
    block: Option<&Block>,
) -> Response {
    shown(visit, text, base, place, form, block, None)
}

fn shown(
    visit: &Visit,
    text: &str,
    base: i64,
    place: &str,
    form: &RuleForm,
    block: Option<&Block>,
    wrong: Option<&str>,
) -> Response {
    let (title, op) = match block {
        Some(block) => (t("Rule {}").with(format!("{:?}", format::plain(&block.name))), "apply"),
        None => (t("New rule"), "insert"),
    };
    let body = html! {
        h1 { (title) }
        @if let Some(wrong) = wrong { p.notice.poor role="alert" { (wrong) } }
        form.card method="post" action="/policy/form" {
            (shell::token(visit))
            input type="hidden" name="base" value=(base);
            textarea name="text" hidden { "\n" (text) }
            (naming(form))
            (conditions(form))
            (actions(form))
            div.actions {
                button.main type="submit" name="op" value={ (op) "-" (place) } { (t("Put into the policy and check")) }
                a.button.quiet href="/policy" { (t("Leave it")) }
            }
        }
    };
    let status = if wrong.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    visit::page(status, shell::page(visit, "/policy", t("Rule"), &body))
}

fn naming(form: &RuleForm) -> Markup {
    html! {
        fieldset {
            legend { (t("Rule")) }
            div.fields {
                (shell::input("name", t("Name"), &form.name, "text", t("No programs")))
                label { span { (t("Direction")) }
                    select name="direction" {
                        @for name in [noted("both"), noted("inbound"), noted("outbound")] {
                            option value=(name) selected[name == form.direction] { (t(name)) }
                        }
                    }
                }
                label { span { (t("Then")) }
                    select name="stop" {
                        @for (value, name) in [("", noted("stop if it ends")), ("true", noted("stop")),
                            ("false", noted("go on"))] {
                            option value=(value) selected[value == form.stop] { (t(name)) }
                        }
                    }
                }
            }
            label.check { input type="checkbox" name="enabled" value="yes" checked[form.enabled];
                span { (t("In force")) } }
        }
    }
}

fn conditions(form: &RuleForm) -> Markup {
    html! {
        fieldset {
            legend { (t("When all of these hold")) }
            p.hint { (t("Several words with commas: any of them. * stands for any run of characters. Empty: whatever it is.")) }
            div.fields {
                @for (value, (name, label)) in form.lists.iter().zip(LIST_FIELDS) {
                    @let hint = if name == "class" { CLASSES } else { "" };
                    (shell::input(&format!("when_{name}"), t(label), value, "text", hint))
                }
                (shell::input("score_min", t("Points, at least"), &form.score_min, "text", "6.0"))
                (shell::input("size_min", t("Size, at least"), &form.size_min, "text", "10 MB"))
                (shell::input("attachment", t("Name of an attachment"), &form.attachment, "text", "*.exe, *.scr"))
            }
            label { span { (t("Further conditions (TOML, one a line)")) }
                textarea.code name="more_when" rows="3" spellcheck="false" { "\n" (form.more_when) } }
        }
    }
}

fn actions(form: &RuleForm) -> Markup {
    html! {
        fieldset {
            legend { (t("It does")) }
            div.fields {
                label { span { (t("End")) }
                    select name="end" {
                        option value="" { (t("none: the next rules decide")) }
                        @for (name, _) in ENDS {
                            option value=(name) selected[name == form.end] { (t(&format::spaced(name))) }
                        }
                    }
                }
                (shell::input("end_text", t("Folder, addresses or text of the end"), &form.end_text, "text", "suspect"))
                label { span { (t("What is held is released by")) }
                    select name="release" {
                        @for (value, name) in [("", noted("who the folder's setting names")),
                            ("admin", noted("administrators")), ("user", noted("its recipient"))] {
                            option value=(value) selected[value == form.release] { (t(name)) }
                        }
                    }
                }
                (shell::input("tag_subject", t("Tag before the subject"), &form.tag_subject, "text", "[SPAM]"))
            }
            label { span { (t("Further actions (a TOML list)")) }
                textarea.code name="more_do" rows="2" spellcheck="false"
                    placeholder="[\"dkim_sign\", { copy = \"a@example.org\" }]" { "\n" (form.more_do) } }
        }
    }
}

//! One of the policy's rules as a form, and what the list's buttons do. Every step works on the
//! text that is being edited; nothing is in force before it was checked and saved.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_policy::edit::{self, Block, ENDS, LIST_FIELDS, RuleForm};
use maud::{Markup, html};

use super::policy;
use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// Classes, for the form's hint.
const CLASSES: &str = "spam, phishing";

/// `POST /policy/form`: `op` with the number of a rule: `edit-3`, `up-3`, ..., `apply-3`,
/// `insert-end`.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (text, base) = (request.lines("text"), policy::base(request)?);
    let blocks = match edit::blocks(&text) {
        Ok(blocks) => blocks,
        Err(error) => return Ok(policy::wrong(request, &text, base, &error)),
    };
    let (op, place) = request.field("op").split_once('-').unwrap_or_default();
    let number = place.parse::<usize>().ok();
    let shown_as = (text.as_str(), base, place);
    let Some(block) = number.and_then(|n| blocks.get(n)) else {
        return match (op, place) {
            ("new", "end") => Ok(page(request, &text, base, place, &RuleForm::new(), None)),
            ("insert", "end") => apply(app, request, shown_as, None, |rule| {
                edit::with_rule_before(&text, None, rule)
            }),
            _ => Err(RequestError::Bad("op: what to do and the number of a rule".to_owned())),
        };
    };
    let n = number.unwrap_or(0);
    let neighbour = |other: Option<usize>| other.and_then(|n| blocks.get(n));
    let none = || RequestError::Bad("There is no rule to change places with.".to_owned());
    let new = match op {
        "edit" => return Ok(page(request, &text, base, place, &RuleForm::of(block), Some(block))),
        "new" => return Ok(page(request, &text, base, place, &RuleForm::new(), None)),
        "insert" => {
            return apply(app, request, shown_as, None, |rule| {
                edit::with_rule_before(&text, Some(block), rule)
            });
        }
        "apply" => {
            return apply(app, request, shown_as, Some(block), |rule| {
                edit::with_rule_instead(&text, block, rule)
            });
        }
        "up" => edit::with_swapped(&text, neighbour(n.checked_sub(1)).ok_or_else(none)?, block),
        "down" => edit::with_swapped(&text, block, neighbour(Some(n + 1)).ok_or_else(none)?),
        "switch" => edit::with_switched(&text, block),
        "delete" => edit::without(&text, block),
        _ => return Err(RequestError::Bad("op: edit, new, up, down, switch or delete".to_owned())),
    };
    policy::checked(app, request, &new, base)
}

/// Takes the rule of the form over, by the text that `with` makes with it; shows the form again if
/// it makes none.
fn apply(
    app: &App,
    request: &RequestContext,
    (text, base, place): (&str, i64, &str),
    replaced: Option<&Block>,
    with: impl FnOnce(&str) -> String,
) -> Result<Response, RequestError> {
    let form = read(request);
    match form.to_toml() {
        Ok(rule) => policy::checked(app, request, &with(&rule), base),
        Err(why) => Ok(shown(request, text, base, place, &form, replaced, Some(&why.to_string()))),
    }
}

/// Reads the fields of the form from a request.
fn read(request: &RequestContext) -> RuleForm {
    let text = |name: &str| request.field(name).to_owned();
    let mut lists: [String; LIST_FIELDS.len()] = Default::default();
    for (place, (name, _)) in lists.iter_mut().zip(LIST_FIELDS) {
        *place = text(&format!("when_{name}"));
    }
    RuleForm {
        name: text("name"),
        direction: text("direction"),
        enabled: request.field("enabled") == "yes",
        lists,
        score_min: text("score_min"),
        size_min: text("size_min"),
        attachment: text("attachment"),
        more_when: request.lines("more_when"),
        end: text("end"),
        end_text: text("end_text"),
        tag_subject: text("tag_subject"),
        more_do: text("more_do"),
        stop: text("stop"),
        release: text("release"),
    }
}

fn page(
    request: &RequestContext,
    text: &str,
    base: i64,
    place: &str,
    form: &RuleForm,
    block: Option<&Block>,
) -> Response {
    shown(request, text, base, place, form, block, None)
}

fn shown(
    request: &RequestContext,
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
            (layout::token(request))
            input type="hidden" name="base" value=(base);
            textarea name="text" hidden { "\n" (text) }
            (naming(form))
            (conditions(form))
            (actions(form))
            div.actions {
                button.main type="submit" name="op" value={ (op) "-" (place) } { (t("Put into the policy and check")) }
                a.button.quiet href="/policy" { (t("Cancel")) }
            }
        }
    };
    let status = if wrong.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    response::page(status, layout::page(request, "/policy", t("Rule"), &body))
}

fn naming(form: &RuleForm) -> Markup {
    html! {
        fieldset {
            legend { (t("Rule")) }
            div.fields {
                (layout::input("name", t("Name"), &form.name, "text", t("No programs")))
                label { span { (t("Direction")) }
                    select name="direction" {
                        @for name in [translatable("both"), translatable("inbound"), translatable("outbound")] {
                            option value=(name) selected[name == form.direction] { (t(name)) }
                        }
                    }
                }
                label { span { (t("Then")) }
                    select name="stop" {
                        @for (value, name) in [("", translatable("stop if it ends")), ("true", translatable("stop")),
                            ("false", translatable("continue"))] {
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
                    (layout::input(&format!("when_{name}"), t(label), value, "text", hint))
                }
                (layout::input("score_min", t("Points, at least"), &form.score_min, "text", "6.0"))
                (layout::input("size_min", t("Size, at least"), &form.size_min, "text", "10 MB"))
                (layout::input("attachment", t("Name of an attachment"), &form.attachment, "text", "*.exe, *.scr"))
            }
            label { span { (t("Further conditions (TOML, one a line)")) }
                textarea.code name="more_when" rows="3" spellcheck="false" { "\n" (form.more_when) } }
        }
    }
}

fn actions(form: &RuleForm) -> Markup {
    html! {
        fieldset {
            legend { (t("Actions")) }
            div.fields {
                label { span { (t("End")) }
                    select name="end" {
                        option value="" { (t("none: the next rules decide")) }
                        @for (name, _) in ENDS {
                            option value=(name) selected[name == form.end] { (t(&format::spaced(name))) }
                        }
                    }
                }
                (layout::input("end_text", t("Folder, addresses or text of the end"), &form.end_text, "text", "suspect"))
                label { span { (t("What is held is released by")) }
                    select name="release" {
                        @for (value, name) in [("", translatable("who the folder's setting names")),
                            ("admin", translatable("administrators")), ("user", translatable("its recipient"))] {
                            option value=(value) selected[value == form.release] { (t(name)) }
                        }
                    }
                }
                (layout::input("tag_subject", t("Tag before the subject"), &form.tag_subject, "text", "[SPAM]"))
            }
            label { span { (t("Further actions (a TOML list)")) }
                textarea.code name="more_do" rows="2" spellcheck="false"
                    placeholder="[\"dkim_sign\", { copy = \"a@example.org\" }]" { "\n" (form.more_do) } }
        }
    }
}

//! A message as a [`Document`]: SpamAssassin's views, and the eval functions of a ruleset.

use std::borrow::Cow;

use gauntlet_mail::{Evidence, View};
use gauntlet_rules::document::{CallError, Document, Function, Functions};
use gauntlet_rules::rule::{EvalCall, EvalKind, HeaderSelector};
use gauntlet_rules::{Severity, Texts, UriDetail};

use crate::evals::{Eval, EvalContext, unknown_tags};
use crate::tags;

/// One message that is scanned with a ruleset.
pub(crate) struct MessageDocument<'a> {
    /// The context of eval functions.
    pub(crate) evals: EvalContext<'a>,
    /// The calls of the ruleset, by number.
    pub(crate) calls: &'a [Eval],
}

impl Document for MessageDocument<'_> {
    fn header(&self, selector: &HeaderSelector) -> Option<Cow<'_, [u8]>> {
        self.evals.views.header(selector)
    }

    fn may_have_field(&self, name_hash: u8) -> bool {
        self.evals.views.may_have_field(name_hash)
    }

    fn mime_headers(&self, selector: &HeaderSelector) -> Vec<Option<Cow<'_, [u8]>>> {
        self.evals.views.mime_headers(selector)
    }

    fn text(&self, texts: Texts, number: u32) -> Option<&[u8]> {
        let (views, at) = (self.evals.views, number as usize);
        match texts {
            Texts::Body => views.body().get(at).map(Vec::as_slice),
            Texts::UneditedBody => views.unedited_body().get(at).map(Vec::as_slice),
            Texts::Rawbody => views.rawbody().get(at).map(Vec::as_slice),
            Texts::Uris => views.uris().get(at).map(|uri| uri.text.as_slice()),
            Texts::Full => (at == 0).then(|| views.full()),
        }
    }

    fn has_edited_body(&self) -> bool {
        self.evals.views.has_edited_body()
    }

    fn uri_details(&self) -> Box<dyn Iterator<Item = (&[u8], &UriDetail)> + '_> {
        let details = &self.evals.views.uri_details().details;
        Box::new(details.iter().map(|(uri, detail)| (uri.as_slice(), detail)))
    }

    fn registered_domain(&self, host: &[u8]) -> Vec<u8> {
        self.evals.views.boundaries().trim(host)
    }

    fn call(&self, function: u32) -> u32 {
        self.calls.get(function as usize).map_or(0, |call| call.run(&self.evals))
    }

    fn call_evidence(&self, function: u32) -> Evidence {
        match self.calls.get(function as usize) {
            Some(call) => call.evidence(self.evals.views),
            None => Evidence::new(View::Feature, 0, 0, b""),
        }
    }

    fn tag(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        tags::standard(name, &self.evals)
    }

    fn evidence(&self, texts: Texts, number: u32, start: usize, found: &[u8]) -> Evidence {
        let views = self.evals.views;
        // Offsets in these views are counted from the start of the first text.
        let before =
            |texts: &[Vec<u8>]| -> usize { texts.iter().take(number as usize).map(Vec::len).sum() };
        let (view, before) = match texts {
            Texts::Body | Texts::UneditedBody => (View::SaBody, before(views.body())),
            Texts::Rawbody => (View::SaRawbody, before(views.rawbody())),
            Texts::Uris => (View::Url, 0),
            Texts::Full => (View::Raw, 0),
        };
        Evidence::new(view, 0, before + start, found)
    }
}

/// The calls of a ruleset while it is compiled.
#[derive(Debug, Default)]
pub(crate) struct Calls(pub(crate) Vec<Eval>);

impl Calls {
    fn take(&mut self, eval: Eval) -> Function {
        let function = Function {
            number: u32::try_from(self.0.len()).unwrap_or(u32::MAX),
            edits_body: eval.edits_body(),
        };
        self.0.push(eval);
        function
    }
}

impl Functions for Calls {
    fn add_call(&mut self, call: &EvalCall, kind: EvalKind) -> Result<Function, CallError> {
        let refused = |cause| CallError {
            severity: Severity::Note,
            message: format!("never fires: {cause}"),
        };
        Ok(self.take(Eval::compile(call, kind).map_err(refused)?))
    }

    fn add_query(
        &mut self,
        rule: &str,
        query: &str,
        filter: Option<&str>,
        is_asked: bool,
    ) -> Result<Option<Function>, CallError> {
        let unknown = unknown_tags(query);
        if !unknown.is_empty() {
            let message = format!("never fires: no value for {}", unknown.join(", "));
            return Err(CallError { severity: Severity::Note, message });
        }
        if !is_asked {
            return Ok(None);
        }
        let malformed = |cause: crate::evals::EvalError| CallError {
            severity: Severity::Error,
            message: cause.to_string(),
        };
        Ok(Some(self.take(Eval::of_template(rule, filter).map_err(malformed)?)))
    }
}

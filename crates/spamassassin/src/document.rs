//! A message as the matcher asks for it: SpamAssassin's views, and the functions of a rule set.

use std::borrow::Cow;

use gauntlet_mail::{Evidence, View};
use gauntlet_rules::document::{Document, Function, Functions, Refused, evidence_in};
use gauntlet_rules::rule::{EvalCall, EvalKind, HeaderSelector};
use gauntlet_rules::{Severity, Texts, Uri, UriDetail};

use crate::evals::{Eval, EvalContext, unknown_tags};
use crate::tags;

/// One message under a rule set.
pub(crate) struct MessageDocument<'a> {
    /// What the functions see.
    pub(crate) evals: EvalContext<'a>,
    /// The calls of the rule set, by number.
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

    fn body(&self) -> &[Vec<u8>] {
        self.evals.views.body()
    }

    fn unedited_body(&self) -> &[Vec<u8>] {
        self.evals.views.unedited_body()
    }

    fn has_edited_body(&self) -> bool {
        self.evals.views.has_edited_body()
    }

    fn rawbody(&self) -> &[Vec<u8>] {
        self.evals.views.rawbody()
    }

    fn uris(&self) -> &[Uri] {
        self.evals.views.uris()
    }

    fn uri_details(&self) -> Box<dyn Iterator<Item = (&[u8], &UriDetail)> + '_> {
        let details = &self.evals.views.uri_details().details;
        Box::new(details.iter().map(|(uri, detail)| (uri.as_slice(), detail)))
    }

    fn registered_domain(&self, host: &[u8]) -> Vec<u8> {
        self.evals.views.boundaries().trim(host)
    }

    fn full(&self) -> &[u8] {
        self.evals.views.full()
    }

    fn call(&self, function: u32) -> u32 {
        self.calls.get(function as usize).map_or(0, |call| call.run(&self.evals))
    }

    fn seen_by(&self, function: u32) -> Evidence {
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
        match texts {
            Texts::Body => evidence_in(View::SaBody, views.body(), number, start, found),
            Texts::Rawbody => evidence_in(View::SaRawbody, views.rawbody(), number, start, found),
            Texts::Uris => Evidence::new(View::Url, 0, start, found),
            Texts::Full => Evidence::new(View::Raw, 0, start, found),
        }
    }
}

/// The calls of a rule set while it is compiled.
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
    fn take_call(&mut self, call: &EvalCall, kind: EvalKind) -> Result<Function, Refused> {
        let refused =
            |cause| Refused { severity: Severity::Note, message: format!("never fires: {cause}") };
        Ok(self.take(Eval::compile(call, kind).map_err(refused)?))
    }

    fn take_query(
        &mut self,
        rule: &str,
        query: &str,
        filter: Option<&str>,
        is_asked: bool,
    ) -> Result<Option<Function>, Refused> {
        let unknown = unknown_tags(query);
        if !unknown.is_empty() {
            let message = format!("never fires: no value for {}", unknown.join(", "));
            return Err(Refused { severity: Severity::Note, message });
        }
        if !is_asked {
            return Ok(None);
        }
        let malformed = |cause: crate::evals::EvalError| Refused {
            severity: Severity::Error,
            message: cause.to_string(),
        };
        Ok(Some(self.take(Eval::of_template(rule, filter).map_err(malformed)?)))
    }
}

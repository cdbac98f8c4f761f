//! One connection of an ICAP client: a request, its answer, the next request.
//!
//! Requests may come one behind the other without waiting; they are answered in their order. A
//! preview is read to its end before anything is answered. After an answer that did not need it,
//! the rest of a body is read and dropped, so that the connection can be used again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Method, Response};
use tokio::io::{AsyncWriteExt, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::asking;
use crate::body::AnyBody;
use crate::client::{Client, Socket, Stage};
use crate::error_page::{self, Form};
use crate::icap::answer::{self, About, Part};
use crate::icap::body::{Incoming, ReadError};
use crate::icap::chunks::{ChunkDecoder, put_chunk, put_end};
use crate::icap::codec::{self, CodecError, CodecLimits, IcapMethod, IcapRequest};
use crate::icap::http_head;
use crate::icap::service::{NoService, Question, Service, Verdict};
use crate::icap::transaction::Transaction;
use crate::inspect::inspect;
use crate::judge::Inspect;
use crate::refusal::Refusal;
use crate::releases::{Desk, FORM_BYTES_MAX};
use crate::stop::Phase;

/// How long a client may take to read an error before the connection ends.
const GOODBYE: Duration = Duration::from_secs(1);

pub(crate) struct Connection {
    service: Arc<Service>,
    client: Arc<Client>,
    incoming: Incoming,
    out: WriteHalf<Socket<TcpStream>>,
}

/// The connection cannot be used again.
struct Ended;

/// What an answer needs to know of its request.
struct Asked {
    request: IcapRequest,
    /// The HTTP header that is asked about, as it came.
    head: Bytes,
    part: Part,
    /// What the log says about a response that passes.
    status: u16,
    content_type: Option<String>,
    form: Form,
    /// A response to it has no body.
    is_bodiless: bool,
    istag: String,
}

impl Asked {
    fn about(&self) -> About<'_> {
        About { istag: &self.istag, is_last: self.request.is_last }
    }
}

impl Connection {
    pub(crate) fn new(
        service: Arc<Service>,
        client: Arc<Client>,
        socket: Socket<TcpStream>,
    ) -> Self {
        let (read, out) = split(socket);
        let incoming = Incoming::new(read, service.limits);
        Connection { service, client, incoming, out }
    }

    /// Serves until the client or the server has enough.
    pub(crate) async fn run(mut self) {
        while let Some(head) = self.next_head().await {
            let busy = self.client.begin(false);
            let client = Arc::clone(&self.client);
            let answered = tokio::select! {
                answered = self.answer(head) => answered,
                () = client.progress.stalled() => {
                    self.service.counters.stalled.add(1);
                    return;
                }
            };
            drop(busy);
            if answered.is_err() {
                break;
            }
            self.incoming.release();
        }
        // It may be closed already.
        let _ = self.out.shutdown().await;
    }

    /// The next ICAP header; none if the connection ends.
    async fn next_head(&mut self) -> Option<Result<Bytes, CodecError>> {
        let mut draining = pin!(self.service.stop.clone().begun(Phase::Draining));
        let mut is_draining = false;
        loop {
            tokio::select! {
                head = self.incoming.head() => return match head {
                    Ok(head) => Some(Ok(head)),
                    Err(ReadError::Codec(error)) => Some(Err(error)),
                    Err(ReadError::Closed) => None,
                },
                () = draining.as_mut(), if !is_draining => {
                    is_draining = true;
                    if self.incoming.is_idle() {
                        return None;
                    }
                }
                () = self.client.progress.stalled() => {
                    let is_late = self.client.stage() == Stage::Header && !self.incoming.is_idle();
                    if is_late {
                        let _ = self.fail(408, "the header is too late").await;
                    }
                    return None;
                }
            }
        }
    }

    async fn answer(&mut self, head: Result<Bytes, CodecError>) -> Result<(), Ended> {
        let request = head.and_then(|head| codec::read_request(&head, &self.service.limits));
        let request = match request {
            Ok(request) => request,
            Err(error) => return self.fail(error.status(), &error.to_string()).await,
        };
        match self.service.find(&request) {
            Ok(()) => {}
            Err(NoService::Path) => return self.fail(404, "services: /reqmod, /respmod").await,
            Err(NoService::Method) => {
                return self.fail(405, "/reqmod is for REQMOD, /respmod for RESPMOD").await;
            }
        }
        let counters = &self.service.counters;
        match request.method {
            IcapMethod::Options => {
                counters.options.add(1);
                self.options(&request).await?;
            }
            IcapMethod::Reqmod | IcapMethod::Respmod => {
                let is_reqmod = request.method == IcapMethod::Reqmod;
                if is_reqmod { &counters.reqmod } else { &counters.respmod }.add(1);
                return self.adapt(request).await;
            }
        }
        if request.is_last { Err(Ended) } else { Ok(()) }
    }

    async fn options(&mut self, request: &IcapRequest) -> Result<(), Ended> {
        self.begin_body(request);
        if request.preview.is_some() {
            self.skip().await?;
        }
        let istag = self.service.istag();
        let about = About { istag: &istag, is_last: request.is_last };
        let methods = self.service.methods(&request.path);
        let out = answer::options(methods, &self.service.settings.icap, about);
        self.write(&out).await?;
        self.skip().await
    }

    fn begin_body(&self, request: &IcapRequest) {
        let limits = self.service.limits;
        self.incoming.begin_body(match request.encapsulated.has_body {
            true => ChunkDecoder::new(limits, request.preview),
            false => ChunkDecoder::ended(limits),
        });
    }

    /// Answers a question about a request or a response.
    async fn adapt(&mut self, mut request: IcapRequest) -> Result<(), Ended> {
        let heads = self.incoming.exact(request.encapsulated.head_bytes).await;
        let heads = heads.map_err(|_| Ended)?;
        let question = match read_question(&request, &heads, &self.service.limits) {
            Ok(question) => question,
            Err(error) => return self.fail(error.status(), &error.to_string()).await,
        };
        self.begin_body(&request);
        let (client, user) = self.service.client(self.client.address, &mut request);
        let mut transaction = Transaction::new(
            &question.request,
            client,
            user.clone(),
            Arc::clone(&self.service.log),
            Arc::clone(&self.service.counters),
            self.service.references.next(),
        );
        if request.preview.is_some()
            && let Err(error) = self.incoming.read_ahead().await
        {
            return self.broken(&mut transaction, error).await;
        }
        let asked = asked(request, &heads, &question, self.service.istag());
        if let Some(desk) = self.service.desk(&question) {
            let taken = self.take_form(&asked, &mut transaction, desk).await;
            transaction.record.bytes_in = self.incoming.body_bytes();
            return taken;
        }
        let web = self.service.read(client, user, &question);
        let verdict = web.and_then(|web| {
            transaction.note(&web);
            self.service.decide(&web, question, &mut transaction.record.note)
        });
        let answered = match verdict {
            Ok(Verdict::Pass) => self.pass(&asked, &mut transaction).await,
            Ok(Verdict::Inspect(with)) => self.inspect(&asked, &mut transaction, with).await,
            Ok(Verdict::Redirect(to)) => {
                transaction.is_changed = true;
                self.instead(&asked, &mut transaction, to).await
            }
            Err(refusal) => self.refuse(&asked, &mut transaction, &refusal).await,
        };
        transaction.record.bytes_in = self.incoming.body_bytes();
        match answered {
            Ok(()) if !asked.request.is_last => Ok(()),
            _ => Err(Ended),
        }
    }

    /// Takes the form by which somebody asks for release of what was blocked. It is sent to the
    /// site that was blocked, so this comes before the judge.
    async fn take_form(
        &mut self,
        asked: &Asked,
        log: &mut Transaction,
        desk: Arc<Desk>,
    ) -> Result<(), Ended> {
        let (body, mut gate) = self.incoming.body();
        let read = {
            let mut reading = pin!(Limited::new(body, FORM_BYTES_MAX).collect());
            loop {
                tokio::select! {
                    read = reading.as_mut() => break read,
                    () = gate.wanted() => {
                        self.go_on().await?;
                        gate.open();
                    }
                }
            }
        };
        let Ok(form) = read else {
            return match self.incoming.failed() {
                Some(error) => self.broken(log, error).await,
                None => self.refuse(asked, log, &Refusal::RequestBody).await,
            };
        };
        let (client, form) = (log.record.client, form.to_bytes());
        let taken = asking::take(desk, client, form, &mut log.record.note).await;
        log.is_changed = true;
        let page = error_page::taken(&taken, &self.service.settings.name);
        self.instead(asked, log, page).await?;
        if asked.request.is_last { Err(Ended) } else { Ok(()) }
    }

    /// It passes as it came.
    async fn pass(&mut self, asked: &Asked, log: &mut Transaction) -> Result<(), Ended> {
        note_passed(asked, log);
        if asked.request.preview.is_some() || asked.request.allows_204 {
            return self.unmodified(asked, log).await;
        }
        if !asked.request.encapsulated.has_body {
            let out = answer::encapsulated(asked.part, &asked.head, false, None, asked.about());
            self.write(&out).await?;
            self.service.counters.echoed.add(1);
            log.ended();
            return Ok(());
        }
        let (body, _gate) = self.incoming.body();
        self.echo(asked, log, &asked.head, body.boxed_unsync()).await
    }

    async fn unmodified(&mut self, asked: &Asked, log: &mut Transaction) -> Result<(), Ended> {
        self.write(&answer::unmodified(asked.about())).await?;
        self.service.counters.unmodified.add(1);
        log.ended();
        self.skip().await
    }

    /// Its body passes through an inspector.
    async fn inspect(
        &mut self,
        asked: &Asked,
        log: &mut Transaction,
        inspector: Box<dyn Inspect>,
    ) -> Result<(), Ended> {
        let (body, mut gate) = self.incoming.body();
        let keeps_length = inspector.keeps_length();
        let held_max = self.service.settings.limits.held_bytes_max;
        let inspected = {
            let mut inspecting = pin!(inspect(body, inspector, held_max, log.notes.clone()));
            loop {
                tokio::select! {
                    inspected = inspecting.as_mut() => break inspected,
                    () = gate.wanted() => {
                        self.go_on().await?;
                        gate.open();
                    }
                }
            }
        };
        let body = match inspected {
            Ok(body) => body,
            Err(refusal) => match self.incoming.failed() {
                Some(error) => return self.broken(log, error).await,
                None => return self.refuse(asked, log, &refusal).await,
            },
        };
        note_passed(asked, log);
        // Nothing has been sent, and nothing is left: the client's own copy can be taken.
        let has_copy =
            asked.request.allows_204 || asked.request.preview.is_some() && !gate.is_open();
        if self.incoming.is_delivered() && keeps_length && has_copy {
            return self.unmodified(asked, log).await;
        }
        // Once an answer has begun, the rest of the body cannot be asked for.
        if self.incoming.waits() && !gate.is_open() {
            self.go_on().await?;
            gate.open();
        }
        match keeps_length {
            true => self.echo(asked, log, &asked.head, body).await,
            false => {
                log.is_changed = true;
                let head = http_head::without(&asked.head, "Content-Length");
                self.echo(asked, log, &head, body).await
            }
        }
    }

    async fn go_on(&mut self) -> Result<(), Ended> {
        self.service.counters.continued.add(1);
        self.write(answer::CONTINUE).await
    }

    /// Sends a message back, piece by piece as its body comes.
    async fn echo(
        &mut self,
        asked: &Asked,
        log: &mut Transaction,
        head: &[u8],
        mut body: AnyBody,
    ) -> Result<(), Ended> {
        let names = asked.request.trailers.as_deref();
        let mut out = answer::encapsulated(asked.part, head, true, names, asked.about());
        let mut trailers: Option<HeaderMap> = None;
        let mut has_begun = false;
        while let Some(frame) = body.frame().await {
            match frame.map(|frame| frame.into_data()) {
                Ok(Ok(data)) => {
                    put_chunk(&mut out, &data);
                    log.record.bytes_out += u64::try_from(data.len()).unwrap_or(u64::MAX);
                    self.write(&out).await?;
                    out.clear();
                    has_begun = true;
                }
                Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
                Err(error) => {
                    match self.incoming.failed() {
                        Some(error) if !has_begun => return self.broken(log, error).await,
                        Some(ReadError::Codec(error)) => log.malformed(error.to_string()),
                        Some(ReadError::Closed) | None => {}
                    }
                    self.service.counters.cut.add(1);
                    error.downcast_ref().into_iter().for_each(|refusal| log.refused(refusal));
                    return Err(Ended);
                }
            }
        }
        put_end(&mut out, trailers.as_ref(), names);
        self.write(&out).await?;
        let counters = &self.service.counters;
        if log.is_changed { &counters.changed } else { &counters.echoed }.add(1);
        log.ended();
        Ok(())
    }

    async fn refuse(
        &mut self,
        asked: &Asked,
        log: &mut Transaction,
        refusal: &Refusal,
    ) -> Result<(), Ended> {
        log.refused(refusal);
        let record = &log.record;
        let page = self.service.page(refusal, record, asked.form);
        self.instead(asked, log, page).await
    }

    /// A response of ours in place of what was asked about.
    async fn instead(
        &mut self,
        asked: &Asked,
        log: &mut Transaction,
        response: Response<AnyBody>,
    ) -> Result<(), Ended> {
        let (parts, body) = response.into_parts();
        // Our pages are in memory.
        let body = body.collect().await.map_err(|_| Ended)?.to_bytes();
        let head = answer::http_head(&parts, body.len());
        let has_body = !body.is_empty() && !asked.is_bodiless;
        let mut out = answer::encapsulated(Part::Response, &head, has_body, None, asked.about());
        if has_body {
            put_chunk(&mut out, &body);
            put_end(&mut out, None, None);
            log.record.bytes_out = u64::try_from(body.len()).unwrap_or(u64::MAX);
        }
        log.record.status = parts.status.as_u16();
        log.record.content_type = content_type(&parts.headers);
        self.write(&out).await?;
        self.service.counters.satisfied.add(1);
        log.ended();
        self.skip().await
    }

    /// An error, after which the connection ends: where a next request would begin is not known.
    async fn fail(&mut self, status: u16, why: &str) -> Result<(), Ended> {
        self.service.counters.errors.add(1);
        let istag = self.service.istag();
        self.write(&answer::error(status, why, About { istag: &istag, is_last: true })).await?;
        // Closed at once, a client that is still sending would lose the answer by a reset.
        let _ = self.out.shutdown().await;
        let _ = timeout(GOODBYE, self.incoming.discard()).await;
        Err(Ended)
    }

    /// A body that does not come as it should.
    async fn broken(&mut self, log: &mut Transaction, error: ReadError) -> Result<(), Ended> {
        match error {
            ReadError::Codec(error) => {
                let (status, why) = (error.status(), error.to_string());
                log.failed(status, why.clone());
                self.fail(status, &why).await
            }
            ReadError::Closed => Err(Ended),
        }
    }

    /// Drops what is left of a body.
    async fn skip(&mut self) -> Result<(), Ended> {
        self.incoming.skip().await.map_err(|_| Ended)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        self.out.write_all(bytes).await.map_err(|_| Ended)
    }
}

fn read_question(
    request: &IcapRequest,
    heads: &Bytes,
    limits: &CodecLimits,
) -> Result<Question, CodecError> {
    let encapsulated = &request.encapsulated;
    let part = |range: &std::ops::Range<usize>| heads.get(range.clone()).unwrap_or_default();
    let bytes = encapsulated.request.as_ref().map(part).unwrap_or_default();
    let response = encapsulated.response.as_ref().map(part);
    Ok(Question {
        request: http_head::read_request(bytes, limits)?,
        response: response.map(|bytes| http_head::read_response(bytes, limits)).transpose()?,
        has_body: encapsulated.has_body,
    })
}

fn asked(request: IcapRequest, heads: &Bytes, question: &Question, istag: String) -> Asked {
    let encapsulated = &request.encapsulated;
    let (part, range) = match &encapsulated.response {
        Some(range) => (Part::Response, range.clone()),
        None => (Part::Request, encapsulated.request.clone().unwrap_or_default()),
    };
    let response = question.response.as_ref();
    Asked {
        head: heads.slice(range),
        part,
        status: response.map_or(0, |(status, _)| status.as_u16()),
        content_type: response.and_then(|(_, fields)| content_type(fields)),
        form: Form::wanted(question.request.headers()),
        is_bodiless: *question.request.method() == Method::HEAD,
        istag,
        request,
    }
}

fn note_passed(asked: &Asked, log: &mut Transaction) {
    log.record.status = asked.status;
    log.record.content_type.clone_from(&asked.content_type);
}

fn content_type(fields: &HeaderMap) -> Option<String> {
    fields.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

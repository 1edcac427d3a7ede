//! Turns a response into model events: reads with a bound on every wait, and ends at the first end there is.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use reqwest::Response;
use tokio::time::Instant;

use super::failure::{ErrorReply, one_line};
use super::http::{Service, request_id};
use super::sse::{MAX_EVENT, SseEvent, SseParser};
use super::{EventStream, Failure, ModelEvent, ProviderError, cause};

/// How long a stream whose answer is complete may go on: for the usage, and for its own end.
const AFTER_STOP: Duration = Duration::from_secs(2);

/// How long the rest of a stream is read so that its connection can be used again.
const DRAIN: Duration = Duration::from_millis(500);

/// How much longer the first event may take while comments show that the server lives.
const KEPT_ALIVE: u32 = 5;

/// Events that are no JSON, beyond which a stream is given up; a single one is skipped.
const MAX_UNREADABLE: u32 = 8;

/// One protocol's reading of a reply. What it understood goes to `out`, in order.
pub(crate) trait Decode: Send + fmt::Debug {
    /// Reads one event.
    fn event(&mut self, event: &SseEvent, out: &mut VecDeque<ModelEvent>) -> Result<Flow, ErrorReply>;
    /// Reads an answer that came in one piece although a stream was asked for.
    fn whole(&mut self, body: &[u8], out: &mut VecDeque<ModelEvent>) -> Result<Flow, ErrorReply>;
    /// Whether the answer is complete, though the stream may still bring its usage.
    fn is_complete(&self) -> bool;
    /// Closes what is open and says why the model stopped; called once, after `is_complete` or [`Flow::End`].
    fn close(&mut self, out: &mut VecDeque<ModelEvent>);
}

/// What an event did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More may come.
    More,
    /// The protocol's own end.
    End,
    /// It is not what the protocol has.
    Unreadable,
}

/// Reads a successful response to its end.
pub(crate) fn events(service: Arc<Service>, response: Response, decoder: Box<dyn Decode>) -> EventStream {
    let reader = Box::new(Reader::new(service, response, decoder));
    stream::unfold(reader, |mut reader| async { reader.next().await.map(|event| (event, reader)) }).boxed()
}

/// What the body turned out to be, by its first byte: servers give wrong content types.
#[derive(Debug)]
enum Shape {
    Unknown,
    Events,
    Whole(Vec<u8>),
}

#[derive(Debug)]
struct Reader {
    service: Arc<Service>,
    /// `None` once the stream is over.
    response: Option<Response>,
    request_id: Option<String>,
    content_type: String,
    decoder: Box<dyn Decode>,
    shape: Shape,
    parser: SseParser,
    out: VecDeque<ModelEvent>,
    failed: Option<ProviderError>,
    began: Instant,
    /// Bytes came, if only comments.
    alive: bool,
    /// An event came.
    heard: bool,
    complete_since: Option<Instant>,
    unreadable: u32,
    first_unreadable: String,
}

impl Reader {
    fn new(service: Arc<Service>, response: Response, decoder: Box<dyn Decode>) -> Self {
        let content_type = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .map(|text| one_line(text, 100))
            .unwrap_or_default();
        Self {
            request_id: request_id(response.headers()),
            service,
            response: Some(response),
            content_type,
            decoder,
            shape: Shape::Unknown,
            parser: SseParser::default(),
            out: VecDeque::new(),
            failed: None,
            began: Instant::now(),
            alive: false,
            heard: false,
            complete_since: None,
            unreadable: 0,
            first_unreadable: String::new(),
        }
    }

    async fn next(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        loop {
            if let Some(event) = self.out.pop_front() {
                return Some(Ok(event));
            }
            if let Some(error) = self.failed.take() {
                return Some(Err(self.service.masked(error)));
            }
            let limit = self.limit();
            let response = self.response.as_mut()?;
            match tokio::time::timeout(limit, response.chunk()).await {
                Ok(Ok(Some(chunk))) => self.take(&chunk),
                Ok(Ok(None)) => self.end(),
                Ok(Err(error)) => {
                    let why = cause::deepest(&error);
                    self.broken(&format!("the stream from {} broke: {why}", self.service.place));
                }
                Err(_) => {
                    let text = self.lateness();
                    self.broken(&text);
                }
            }
        }
    }

    /// How long the next bytes may take.
    fn limit(&self) -> Duration {
        let timers = self.service.timers;
        if let Some(since) = self.complete_since {
            AFTER_STOP.saturating_sub(since.elapsed())
        } else if self.heard {
            timers.silence
        } else {
            let whole = timers.first_event.saturating_mul(if self.alive { KEPT_ALIVE } else { 1 });
            whole.saturating_sub(self.began.elapsed()).min(timers.first_event)
        }
    }

    fn lateness(&self) -> String {
        let place = &self.service.place;
        let timers = self.service.timers;
        if self.heard {
            format!("{place} sent nothing for {} s in the middle of its answer", timers.silence.as_secs_f64())
        } else {
            format!("{place} sent no event within {} s after its headers", timers.first_event.as_secs_f64())
        }
    }

    fn take(&mut self, chunk: &Bytes) {
        self.alive |= !chunk.is_empty();
        if let Shape::Unknown = self.shape {
            let first =
                chunk.iter().find(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0xEF | 0xBB | 0xBF));
            match first {
                // Blank lines and a byte order mark open an event stream as well.
                None => {}
                // JSON, or a page that the decoder will refuse with the right words.
                Some(b'{' | b'[' | b'<') => self.shape = Shape::Whole(Vec::new()),
                Some(_) => self.shape = Shape::Events,
            }
        }
        let taken = match &mut self.shape {
            Shape::Whole(body) => {
                body.extend_from_slice(chunk);
                body.len() <= MAX_EVENT
            }
            Shape::Events | Shape::Unknown => self.parser.push(chunk).is_ok(),
        };
        if taken {
            self.read_events();
        } else {
            let text = format!("{} sent an event of more than {MAX_EVENT} bytes", self.service.place);
            self.fail(ProviderError::new(Failure::Invalid, text));
        }
    }

    fn read_events(&mut self) {
        while self.response.is_some()
            && let Some(event) = self.parser.pop()
        {
            self.heard = true;
            match self.decoder.event(&event, &mut self.out) {
                Ok(Flow::More) => {
                    if self.complete_since.is_none() && self.decoder.is_complete() {
                        self.complete_since = Some(Instant::now());
                    }
                }
                Ok(Flow::End) => self.done(),
                Ok(Flow::Unreadable) => self.skip(&event.data),
                Err(reply) => self.refused(&reply),
            }
        }
    }

    /// A clean end of file.
    fn end(&mut self) {
        if let Shape::Whole(body) = &mut self.shape {
            let body = std::mem::take(body);
            return self.read_whole(&body);
        }
        self.parser.finish();
        self.read_events();
        if self.response.is_none() {
            return;
        }
        let place = &self.service.place;
        let text = if self.unreadable > 0 {
            format!("the stream from {place} ended early and held what is no JSON: {}", self.first_unreadable)
        } else if self.heard {
            format!("the stream from {place} ended before the answer was complete")
        } else {
            let kind = if self.content_type.is_empty() { "none given" } else { &self.content_type };
            format!("the answer of {place} holds no event (content type: {kind})")
        };
        self.broken(&text);
    }

    fn read_whole(&mut self, body: &[u8]) {
        match self.decoder.whole(body, &mut self.out) {
            Ok(Flow::More | Flow::End) => self.done(),
            Ok(Flow::Unreadable) => {
                let kind = if self.content_type.is_empty() { "none given" } else { &self.content_type };
                let text = format!(
                    "{} answered with something that is no model's answer (content type: {kind}): {}. Check the base URL",
                    self.service.place,
                    ErrorReply::read(body).message
                );
                self.fail(ProviderError::new(Failure::Invalid, text));
            }
            Err(reply) => self.refused(&reply),
        }
    }

    fn skip(&mut self, data: &str) {
        if self.unreadable == 0 {
            self.first_unreadable = one_line(data, 120);
        }
        self.unreadable += 1;
        if self.unreadable > MAX_UNREADABLE {
            let text =
                format!("{} sends events that are no JSON: {}", self.service.place, self.first_unreadable);
            self.fail(ProviderError::new(Failure::Transient { retry_after: None }, text));
        }
    }

    /// The service's own error: the end of the stream, whether or not the connection stays open.
    fn refused(&mut self, reply: &ErrorReply) {
        let said = if reply.message.is_empty() { "an error without words" } else { &reply.message };
        let text = format!("{} reported: {said}", self.service.place);
        self.fail(ProviderError::new(reply.classify(None, None), text));
    }

    /// The stream is over without its own end; with a complete answer that is no fault.
    fn broken(&mut self, text: &str) {
        if self.decoder.is_complete() {
            self.done();
        } else {
            self.fail(ProviderError::new(Failure::Cut, text));
        }
    }

    fn done(&mut self) {
        self.decoder.close(&mut self.out);
        let Some(mut response) = self.response.take() else { return };
        // Only a body read to its end gives the connection back for the next round.
        tokio::spawn(async move {
            let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
            tokio::time::timeout(DRAIN, rest).await.is_ok()
        });
    }

    fn fail(&mut self, mut error: ProviderError) {
        self.response = None;
        error.request_id = self.request_id.take();
        self.failed = Some(error);
    }
}

/// An id for a call that came without one; no two are the same, in this process or another.
pub(crate) fn fresh_call_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // A `RandomState` is seeded by the system's randomness.
    let seeded = RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
    format!("call_{seeded:016x}")
}

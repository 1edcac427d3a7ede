//! `Reply`: what the model server answers to one request, built up by the test.

use std::time::Duration;

use serde_json::Value;

/// One scripted answer. Constructors start it, methods add to it; the parts are sent in the order in which they were added.
///
/// A *chunk* below is one piece of text, of reasoning or of tool arguments in an event of its own
/// (for [`Reply::raw_sse`]: one segment). Faults strike after so many chunks, 0 being right after the headers;
/// a number past the last chunk means: when all content is complete, but before the events that end the answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(super) answer: Answer,
    pub(super) headers: Vec<(String, String)>,
    pub(super) fault: Option<Fault>,
    pub(super) delay: Duration,
    pub(super) shape: Shape,
}

/// The kind of answer.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// A generated event stream.
    Parts(Vec<Part>),
    /// Exact bytes of a streamed body.
    Raw(Vec<Vec<u8>>),
    /// A whole response with a status.
    Http { status: u16, body: Body },
    /// Nothing at all, until the client closes.
    HangBeforeHeaders,
    /// The socket is closed without a byte.
    CutBeforeHeaders,
}

/// The body of a whole response.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Plain(String),
    Provider(String),
    ContextTooLong { llama_cpp: bool },
}

/// One piece of content.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Thinking(String),
    Text(String),
    Chunks(usize, String),
    Call { id: Option<String>, name: String, arguments: String },
}

/// What goes wrong after a number of chunks.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) after: usize,
    pub(super) kind: FaultKind,
}

#[derive(Debug, Clone)]
pub(super) enum FaultKind {
    Hang,
    Cut,
    End,
    ErrorEvent(String),
    Malformed,
}

/// How generated events look.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a test double")]
pub(super) struct Shape {
    pub(super) stop: Option<String>,
    pub(super) usage: Usage,
    pub(super) chunk_size: usize,
    pub(super) line_end: &'static str,
    pub(super) byte_by_byte: bool,
    pub(super) no_usage: bool,
    pub(super) no_last_event: bool,
    pub(super) no_index: bool,
}

/// Token counts as the Messages API reports them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
}

/// How to begin.
impl Reply {
    /// An answer that starts with text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::empty().say(text)
    }

    /// An answer that starts with reasoning.
    pub(crate) fn thinking(text: impl Into<String>) -> Self {
        Self::empty().think(text)
    }

    /// An answer that starts with a tool call.
    pub(crate) fn tool(name: &str, input: Value) -> Self {
        Self::empty().call(name, input)
    }

    /// An answer without any content: it begins and ends.
    pub(crate) fn empty() -> Self {
        Self::from(Answer::Parts(Vec::new()))
    }

    /// A whole response with this status and an empty plain body.
    pub(crate) fn http(status: u16) -> Self {
        let body = Body::Plain(String::new());
        Self::from(Answer::Http { status, body })
    }

    /// An error response in the protocol's own envelope.
    pub(crate) fn provider_error(status: u16, message: impl Into<String>) -> Self {
        let body = Body::Provider(message.into());
        Self::from(Answer::Http { status, body })
    }

    /// The refusal of a request that is too long for the model, as each protocol words it.
    pub(crate) fn context_too_long() -> Self {
        let body = Body::ContextTooLong { llama_cpp: false };
        Self::from(Answer::Http { status: 400, body })
    }

    /// A streamed body of exactly these segments, each in its own write and its own HTTP chunk.
    pub(crate) fn raw_sse<S: Into<Vec<u8>>>(segments: impl IntoIterator<Item = S>) -> Self {
        Self::from(Answer::Raw(segments.into_iter().map(Into::into).collect()))
    }

    /// Reads the request and never answers.
    pub(crate) fn hang_before_headers() -> Self {
        Self::from(Answer::HangBeforeHeaders)
    }

    /// Sends the headers of a stream and nothing more.
    pub(crate) fn hang_after_headers() -> Self {
        Self::empty().hang_after(0)
    }

    /// Reads the request and closes the socket.
    pub(crate) fn cut_before_headers() -> Self {
        Self::from(Answer::CutBeforeHeaders)
    }
}

/// Content.
impl Reply {
    /// Adds text. (An empty one adds nothing.)
    pub(crate) fn say(self, text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() {
            return self;
        }
        self.part(Part::Text(text))
    }

    /// Adds reasoning.
    pub(crate) fn think(self, text: impl Into<String>) -> Self {
        self.part(Part::Thinking(text.into()))
    }

    /// Adds text that comes as exactly `count` chunks of `text`.
    pub(crate) fn chunks(self, count: usize, text: impl Into<String>) -> Self {
        self.part(Part::Chunks(count, text.into()))
    }

    /// Adds a tool call; its id is `call_N_K`: N-th reply, K-th call (both from 0).
    #[expect(clippy::needless_pass_by_value, reason = "lets a test write json!(…) without &")]
    pub(crate) fn call(self, name: &str, input: Value) -> Self {
        self.raw_call_args(name, input.to_string())
    }

    /// Adds a tool call with an id of the test's choice.
    #[expect(clippy::needless_pass_by_value, reason = "lets a test write json!(…) without &")]
    pub(crate) fn call_with_id(self, id: &str, name: &str, input: Value) -> Self {
        self.part(Part::Call { id: Some(id.to_owned()), name: name.to_owned(), arguments: input.to_string() })
    }

    /// Adds a tool call whose arguments are this text, JSON or not.
    pub(crate) fn raw_call_args(self, name: &str, arguments: impl Into<String>) -> Self {
        self.part(Part::Call { id: None, name: name.to_owned(), arguments: arguments.into() })
    }

    /// Sets the stop reason, by Anthropic's name; chat gets its own word for it. Default: `tool_use` or `end_turn`.
    pub(crate) fn stop(mut self, reason: &str) -> Self {
        self.shape.stop = Some(reason.to_owned());
        self
    }

    /// Sets the token counts as the Messages API has them (`input` without the cached tokens); default 100, 10, 0, 0.
    /// Chat's `prompt_tokens` is the sum of `input`, `cache_read` and `cache_write`.
    pub(crate) fn usage(mut self, input: u64, output: u64, cache_read: u64, write: u64) -> Self {
        self.shape.usage = Usage { input, output, cache_read, cache_write: write };
        self
    }
}

/// Form.
impl Reply {
    /// Characters per chunk; default 24.
    pub(crate) fn chunk_size(mut self, characters: usize) -> Self {
        self.shape.chunk_size = characters.max(1);
        self
    }

    /// Pauses before each chunk.
    pub(crate) fn delay_each(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Adds a response header; it replaces one of the server's own with the same name.
    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// Sets the content type.
    pub(crate) fn content_type(self, value: &str) -> Self {
        self.header("content-type", value)
    }

    /// Sets the body of [`Reply::http`].
    pub(crate) fn body(mut self, text: impl Into<String>) -> Self {
        match &mut self.answer {
            Answer::Http { body, .. } => *body = Body::Plain(text.into()),
            other => panic!("only Reply::http has a body to set, not {other:?}"),
        }
        self
    }

    /// Makes [`Reply::context_too_long`] look like llama.cpp's.
    pub(crate) fn llama_cpp(mut self) -> Self {
        match &mut self.answer {
            Answer::Http { body: Body::ContextTooLong { llama_cpp }, .. } => *llama_cpp = true,
            other => panic!("only Reply::context_too_long has a llama.cpp form, not {other:?}"),
        }
        self
    }

    /// Reports no token counts, not even when asked.
    pub(crate) fn no_usage(mut self) -> Self {
        self.shape.no_usage = true;
        self
    }

    /// Leaves out the very last event, `message_stop` or `[DONE]`; the stop reason before it is sent.
    pub(crate) fn no_last_event(mut self) -> Self {
        self.shape.no_last_event = true;
        self
    }

    /// Chat: tool calls have no `index`, and each comes whole in one event.
    pub(crate) fn without_index(mut self) -> Self {
        self.shape.no_index = true;
        self
    }

    /// Ends the lines of events by `"\r\n"` or `"\r"`.
    pub(crate) fn line_ends(mut self, line_end: &'static str) -> Self {
        self.shape.line_end = line_end;
        self
    }

    /// Sends each byte of the body in its own write and its own HTTP chunk.
    pub(crate) fn byte_by_byte(mut self) -> Self {
        self.shape.byte_by_byte = true;
        self
    }
}

/// Faults in mid-stream.
impl Reply {
    /// Falls silent, until the client closes or the server is dropped.
    pub(crate) fn hang_after(self, chunks: usize) -> Self {
        self.fault(chunks, FaultKind::Hang)
    }

    /// Closes the socket without ending the body.
    pub(crate) fn cut_after(self, chunks: usize) -> Self {
        self.fault(chunks, FaultKind::Cut)
    }

    /// Ends the body as if nothing were missing.
    pub(crate) fn end_after(self, chunks: usize) -> Self {
        self.fault(chunks, FaultKind::End)
    }

    /// Sends the protocol's error event, then leaves the socket open and silent.
    pub(crate) fn error_event_after(self, chunks: usize, message: &str) -> Self {
        self.fault(chunks, FaultKind::ErrorEvent(message.to_owned()))
    }

    /// Sends one event whose data is no JSON, then goes on.
    pub(crate) fn malformed_event_after(self, chunks: usize) -> Self {
        self.fault(chunks, FaultKind::Malformed)
    }
}

impl Reply {
    fn part(mut self, part: Part) -> Self {
        match &mut self.answer {
            Answer::Parts(parts) => parts.push(part),
            other => panic!("{other:?} takes no content"),
        }
        self
    }

    fn fault(mut self, after: usize, kind: FaultKind) -> Self {
        self.fault = Some(Fault { after, kind });
        self
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self {
            answer,
            headers: Vec::new(),
            fault: None,
            delay: Duration::ZERO,
            shape: Shape {
                stop: None,
                usage: Usage { input: 100, output: 10, cache_read: 0, cache_write: 0 },
                chunk_size: 24,
                line_end: "\n",
                byte_by_byte: false,
                no_usage: false,
                no_last_event: false,
                no_index: false,
            },
        }
    }
}

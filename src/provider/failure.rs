//! What a service says when it refuses: its message out of any envelope, and the kind of failure it means.

use std::time::Duration;

use serde_json::Value;

use super::Failure;

/// Longest text in characters that is taken from a page that is no JSON.
const MAX_PAGE: usize = 300;

/// Longest message in characters that is taken from JSON.
const MAX_MESSAGE: usize = 1000;

/// An error as a service words it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ErrorReply {
    /// Its own words, in one line; may be empty.
    pub(crate) message: String,
    /// Its `type`, `status` or the like.
    pub(crate) kind: String,
    /// Its `code`, a number as text.
    pub(crate) code: String,
}

impl ErrorReply {
    /// Reads a response body: JSON of any known shape, a page, or plain text.
    pub(crate) fn read(body: &[u8]) -> Self {
        if let Ok(value) = serde_json::from_slice::<Value>(body)
            && let Some(reply) = Self::from_json(&value)
        {
            return reply;
        }
        let text = String::from_utf8_lossy(body);
        let text = if text.trim_start().starts_with('<') { without_tags(&text) } else { text.into_owned() };
        Self { message: one_line(&text, MAX_PAGE), ..Self::default() }
    }

    /// Reads an error object, with or without its `error` envelope; `None` if it is no error.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        // Some gateways wrap the one error in a list.
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let inner = match value.get("error") {
            Some(Value::Null) | None => value,
            Some(inner) => inner,
        };
        let message = inner
            .as_str()
            .map(str::to_owned)
            .or_else(|| words(inner))
            .or_else(|| words(value))
            .or_else(|| value.get("error").filter(|error| !error.is_null()).map(Value::to_string))?;
        let field = |name: &str| {
            let found = inner.get(name).or_else(|| value.get(name));
            match found {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => String::new(),
            }
        };
        let mut kind = field("type");
        if kind.is_empty() || kind == "error" {
            inner.get("type").and_then(Value::as_str).unwrap_or_default().clone_into(&mut kind);
        }
        if kind.is_empty() {
            kind = field("status");
        }
        // A relay hides the cause in its metadata.
        let cause = inner.pointer("/metadata/raw").and_then(Value::as_str).unwrap_or_default();
        let message = if cause.is_empty() { message } else { format!("{message}: {cause}") };
        Some(Self { message: one_line(&message, MAX_MESSAGE), kind, code: field("code") })
    }

    /// The kind of failure. `status` is the response's, or `None` for an error inside a stream.
    pub(crate) fn classify(&self, status: Option<u16>, retry_after: Option<Duration>) -> Failure {
        let status = status.or_else(|| self.code.parse().ok().filter(|code| (400..600).contains(code)));
        let says = |word: &str| self.kind == word || self.code == word;
        let text = self.message.to_lowercase();
        let any = |needles: &[&str]| needles.iter().any(|needle| text.contains(needle));

        let may_overflow = !matches!(status, Some(401..=404 | 408 | 409));
        let too_large = text.contains("request too large");
        if status == Some(413)
            || says("context_length_exceeded")
            || says("exceed_context_size_error")
            || says("request_too_large")
            || (may_overflow && status != Some(429) && any(OVERFLOW))
            || (status == Some(429) && too_large)
        {
            return Failure::ContextOverflow;
        }
        if status == Some(402)
            || says("insufficient_quota")
            || says("billing_error")
            || says("billing_hard_limit_reached")
            || says("insufficient_credits")
            // A stated wait means a limit that comes back by itself, whatever the text says.
            || (retry_after.is_none() && status.is_none_or(|s| s < 500) && any(SPENT))
        {
            return Failure::Quota;
        }
        if says("model_not_found") || (matches!(status, None | Some(400 | 404 | 422)) && no_such_model(&text))
        {
            return Failure::NotFound;
        }
        match status {
            Some(401 | 403) => Failure::Auth,
            Some(404) => Failure::NotFound,
            Some(408 | 409 | 425 | 429 | 500..) => Failure::Transient { retry_after },
            Some(_) => Failure::Invalid,
            None => match self.kind.as_str() {
                "authentication_error" | "permission_error" => Failure::Auth,
                "not_found_error" => Failure::NotFound,
                "invalid_request_error" | "BadRequestError" => Failure::Invalid,
                _ => Failure::Transient { retry_after },
            },
        }
    }
}

/// How services say that a conversation is too long: llama.cpp, `OpenAI`, Anthropic, vLLM, Ollama, LM Studio, Gemini,
/// Mistral, xAI, Moonshot, Zhipu, Bedrock, Groq, TGI, `MiniMax`.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "input is too long",
    "maximum context length",
    "maximum model length",
    "context_length_exceeded",
    "exceeds the available context size",
    "context size has been exceeded",
    "context length exceeded",
    "exceeds the context length",
    "exceeds maximum context length",
    "greater than the context length",
    "context the overflows",
    "context overflow",
    "exceed context limit",
    "exceeds the context window",
    "exceed the context window",
    "context window exceeds limit",
    "context window of",
    "context_window_exceeded",
    "tokens exceed the configured limit",
    "exceeds the maximum number of tokens",
    "exceeds the maximum number of input tokens",
    "maximum prompt length",
    "reduce the length of the messages",
    "reduce the length of the prompt",
    "exceeded model token limit",
    "prompt exceeds max length",
    "prompt too long",
    "too many input tokens",
    "max_new_tokens` must be",
];

/// How services say that there is nothing left to spend.
const SPENT: &[&str] = &[
    "exceeded your current quota",
    "credit balance is too low",
    "insufficient balance",
    "insufficient credit",
    "insufficient funds",
    "insufficient quota",
    "out of credits",
    "no credits",
    "quota used up",
    "quota has been exhausted",
    "billing hard limit",
    "spending limit",
    "payment required",
];

fn no_such_model(text: &str) -> bool {
    text.contains("model")
        && ["not found", "does not exist", "not exist", "no such model", "unknown model", "invalid model"]
            .iter()
            .any(|needle| text.contains(needle))
}

/// The message of an object: `message`, `msg`, `detail` (text, object or a list of them), `error`, `errors`, `title`.
fn words(value: &Value) -> Option<String> {
    let value = value.as_object()?;
    ["message", "msg", "detail", "error_description", "error", "errors", "title"]
        .iter()
        .filter_map(|name| value.get(*name))
        .find_map(spelled)
}

fn spelled(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Object(fields) => {
            let text = ["message", "msg", "error", "reason"].iter().find_map(|n| fields.get(*n)?.as_str())?;
            // Where the fault lies, as FastAPI has it.
            let place: Vec<String> = fields
                .get("loc")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
                .collect();
            Some(if place.is_empty() { text.to_owned() } else { format!("{}: {text}", place.join(".")) })
        }
        Value::Array(list) => {
            let parts: Vec<String> = list.iter().filter_map(spelled).take(5).collect();
            (!parts.is_empty()).then(|| parts.join("; "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// One line of at most so many characters, runs of blanks made one.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
            count += 1;
        }
        for letter in word.chars() {
            if count >= max {
                out.push('…');
                return out;
            }
            out.push(letter);
            count += 1;
        }
    }
    out
}

/// The readable text of a page: no tags, no scripts, no styles.
fn without_tags(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some((text, tag_on)) = rest.split_once('<') {
        out.push_str(text);
        out.push(' ');
        let lower: String = tag_on.chars().take(7).collect::<String>().to_lowercase();
        let close = if lower.starts_with("script") {
            "</script>"
        } else if lower.starts_with("style") {
            "</style>"
        } else if lower.starts_with("!--") {
            "-->"
        } else {
            ">"
        };
        rest = tag_on.split_once(close).map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out.replace("&nbsp;", " ")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_message_is_found_in_every_known_envelope() {
        for (body, message) in [
            (r#"{"error":{"message":"bad key"}}"#, "bad key"),
            (r#"{"error":"bad key"}"#, "bad key"),
            (r#"{"type":"error","error":{"type":"x","message":"bad key"},"request_id":"r"}"#, "bad key"),
            (r#"{"object":"error","message":"bad\n key","code":400}"#, "bad key"),
            (r#"{"detail":"bad key"}"#, "bad key"),
            (r#"{"detail":[{"loc":["body",0,"x"],"msg":"bad key"},{"msg":"b"}]}"#, "body.0.x: bad key; b"),
            (r#"{"detail":{"message":"bad key"}}"#, "bad key"),
            (r#"[{"error":{"code":429,"message":"bad key","status":"X"}}]"#, "bad key"),
            (r#"{"errors":[{"message":"bad key"}]}"#, "bad key"),
            (r#"{"error":{"message":"relay","metadata":{"raw":"bad key"}}}"#, "relay: bad key"),
            (r#"{"error":{"code":5}}"#, r#"{"code":5}"#),
            ("bad   key\n", "bad key"),
            ("", ""),
            (
                "<html><style>p{}</style><!-- c --><body><h1>503</h1>\n<p>bad &amp; key</p><script>x<y</script>",
                "503 bad & key",
            ),
        ] {
            assert_eq!(ErrorReply::read(body.as_bytes()).message, message, "{body}");
        }
        let page = format!("<p>{}</p>", "é ".repeat(100_000));
        assert_eq!(ErrorReply::read(page.as_bytes()).message.chars().count(), MAX_PAGE + 1);
        assert_eq!(ErrorReply::from_json(&json!({"choices": []})), None);
        assert_eq!(ErrorReply::from_json(&json!({"error": null})), None);
    }

    #[test]
    fn failures_by_table() {
        let wait = Some(Duration::from_secs(2));
        let transient = Failure::Transient { retry_after: None };
        for (status, body, retry_after, want) in [
            (401, r#"{"error":{"message":"bad key"}}"#, None, Failure::Auth),
            (403, "{}", None, Failure::Auth),
            (402, "", None, Failure::Quota),
            (429, r#"{"error":{"message":"slow down"}}"#, wait, Failure::Transient { retry_after: wait }),
            (429, r#"{"error":{"code":"insufficient_quota","message":"x"}}"#, wait, Failure::Quota),
            (429, r#"{"error":{"message":"You exceeded your current quota"}}"#, None, Failure::Quota),
            (
                429,
                r#"{"error":{"message":"Plan quota used up"}}"#,
                wait,
                Failure::Transient { retry_after: wait },
            ),
            (
                429,
                r#"{"error":{"message":"Request too large for gpt-4o on tokens"}}"#,
                None,
                Failure::ContextOverflow,
            ),
            (
                400,
                r#"{"error":{"message":"Your credit balance is too low to access"}}"#,
                None,
                Failure::Quota,
            ),
            (408, "", None, transient),
            (409, "", None, transient),
            (500, "", None, transient),
            (503, "<html>busy</html>", None, transient),
            (529, r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#, None, transient),
            (404, "", None, Failure::NotFound),
            (400, r#"{"error":{"code":"model_not_found","message":"x"}}"#, None, Failure::NotFound),
            (400, r#"{"error":"model 'x' not found"}"#, None, Failure::NotFound),
            (413, "", None, Failure::ContextOverflow),
            (
                400,
                r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
                None,
                Failure::ContextOverflow,
            ),
            (
                400,
                r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#,
                None,
                Failure::ContextOverflow,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"x","type":"exceed_context_size_error","n_ctx":8192}}"#,
                None,
                Failure::ContextOverflow,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens."}"#,
                None,
                Failure::ContextOverflow,
            ),
            (
                500,
                r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length"}"#,
                None,
                Failure::ContextOverflow,
            ),
            (400, r#"{"error":{"message":"max_tokens is too large: 9. At most 4"}}"#, None, Failure::Invalid),
            (422, r#"{"detail":[{"msg":"field required"}]}"#, None, Failure::Invalid),
        ] {
            let got = ErrorReply::read(body.as_bytes()).classify(Some(status), retry_after);
            assert_eq!(got, want, "{status} {body}");
        }
    }

    #[test]
    fn failures_inside_a_stream_by_table() {
        let transient = Failure::Transient { retry_after: None };
        for (error, want) in [
            (json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}), transient),
            (json!({"error": {"type": "api_error", "message": "x"}}), transient),
            (json!({"error": {"type": "rate_limit_error", "message": "x"}}), transient),
            (json!({"error": {"type": "authentication_error", "message": "x"}}), Failure::Auth),
            (json!({"error": {"type": "invalid_request_error", "message": "x"}}), Failure::Invalid),
            (
                json!({"error": {"type": "invalid_request_error", "message": "prompt is too long"}}),
                Failure::ContextOverflow,
            ),
            (json!({"error": {"type": "billing_error", "message": "x"}}), Failure::Quota),
            (json!({"error": {"code": 401, "message": "x"}}), Failure::Auth),
            (json!({"error": {"code": 502, "message": "x"}}), transient),
            (json!({"error": {"code": "server_error", "message": "x"}}), transient),
            (json!({"error": "x"}), transient),
        ] {
            assert_eq!(ErrorReply::from_json(&error).unwrap().classify(None, None), want, "{error}");
        }
    }
}

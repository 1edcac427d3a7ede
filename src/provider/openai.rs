//! OpenAI-compatible Chat Completions: the adapter between our messages and that protocol as many servers speak it.

mod calls;
mod decode;
mod encode;
mod loose;

#[cfg(test)]
mod capture_tests;
#[cfg(test)]
mod decode_tests;
#[cfg(test)]
mod encode_tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use async_trait::async_trait;
use reqwest::Url;

use self::decode::Decoder;
use super::http::{Service, parsed, place};
use super::text_calls::TextCalls;
use super::{EventStream, Failure, ModelInfo, ModelProvider, ProviderError, Request, reply};
use crate::config::Endpoint;

/// A model behind Chat Completions.
#[derive(Debug)]
pub(crate) struct OpenAi {
    service: Arc<Service>,
    info: ModelInfo,
    text_calls: bool,
    /// Bits of [`Dialect`], learnt from refusals.
    dialect: AtomicU8,
}

/// What a server was found to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dialect(u8);

impl Dialect {
    /// It refuses `stream_options`.
    const NO_STREAM_OPTIONS: u8 = 1;
    /// It wants `max_completion_tokens` for `max_tokens`.
    const COMPLETION_TOKENS: u8 = 2;
    /// It refuses `reasoning_effort`.
    const NO_EFFORT: u8 = 4;

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// The dialect to try after this refusal, if it names a field that can be said otherwise.
    fn after(self, error: &ProviderError) -> Option<Self> {
        if !matches!(error.status, Some(400 | 422)) || error.kind != Failure::Invalid {
            return None;
        }
        let names = |field: &str| error.message.contains(field);
        if (names("stream_options") || names("include_usage")) && !self.has(Self::NO_STREAM_OPTIONS) {
            return Some(Self(self.0 | Self::NO_STREAM_OPTIONS));
        }
        if names("reasoning_effort") && !self.has(Self::NO_EFFORT) {
            return Some(Self(self.0 | Self::NO_EFFORT));
        }
        let refused = if self.has(Self::COMPLETION_TOKENS) { "max_completion_tokens" } else { "max_tokens" };
        let unknown = [
            "nsupported",
            "not supported",
            "nrecognized",
            "nknown",
            "xtra",
            "ermitted",
            "nexpected",
            "nstead",
        ];
        // A limit that is only too large is the engine's to lower.
        (names(refused) && unknown.iter().any(|word| names(word)))
            .then_some(Self(self.0 ^ Self::COMPLETION_TOKENS))
    }
}

impl OpenAi {
    /// `info` is completed by the caller; no connection is made.
    pub(crate) fn new(endpoint: &Endpoint, info: ModelInfo) -> Result<Self, ProviderError> {
        let url = address(&endpoint.base_url)?;
        // OpenAI's newer models refuse the old field; most other servers know no other.
        let dialect = if url.host_str() == Some(OWN_HOST) { Dialect::COMPLETION_TOKENS } else { 0 };
        let service = Service::new(endpoint, &info.name, url)?;
        Ok(Self {
            service: Arc::new(service),
            info,
            text_calls: endpoint.text_calls,
            dialect: AtomicU8::new(dialect),
        })
    }
}

const OWN_HOST: &str = "api.openai.com";

/// The provider's name in a `ModelId`: with its host unless it is the makers' own.
pub(crate) fn provider_name(base_url: &str) -> Result<String, ProviderError> {
    let place = place(&parsed(base_url)?);
    Ok(if place == OWN_HOST { "openai".to_owned() } else { format!("openai({place})") })
}

/// `{base}/chat/completions`; a base without any path gets `/v1` first, which every server that also answers
/// without it (llama.cpp, `DeepSeek`) takes and the others (Ollama, vLLM, LM Studio, `OpenAI`) need. A base that
/// ends in `/chat/completions` is taken as meant.
fn address(base_url: &str) -> Result<Url, ProviderError> {
    let mut url = parsed(base_url)?;
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&match path.as_str() {
        "" => "/v1/chat/completions".to_owned(),
        whole if whole.ends_with("/chat/completions") => path,
        base => format!("{base}/chat/completions"),
    });
    Ok(url)
}

#[async_trait]
impl ModelProvider for OpenAi {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: Request<'_>) -> Result<EventStream, ProviderError> {
        let mut dialect = Dialect(self.dialect.load(Ordering::Relaxed));
        let mut changed = 0;
        let response = loop {
            let body = encode::body(&self.info, request, dialect)?;
            match self.service.send(body).await {
                Ok(response) => break response,
                // Each bit changes at most once, so this ends.
                Err(error) => match dialect.after(&error) {
                    Some(next) if (next.0 ^ dialect.0) & changed == 0 => {
                        changed |= next.0 ^ dialect.0;
                        dialect = next;
                        self.dialect.store(next.0, Ordering::Relaxed);
                    }
                    _ => return Err(error),
                },
            }
        };
        let text_calls =
            (self.text_calls && !request.tools.is_empty()).then(|| TextCalls::new(request.tools));
        Ok(reply::events(Arc::clone(&self.service), response, Box::new(Decoder::new(text_calls))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_and_name_of_a_base_url() {
        for (base, want, name) in [
            ("https://api.openai.com", "https://api.openai.com/v1/chat/completions", "openai"),
            ("https://api.openai.com/v1/", "https://api.openai.com/v1/chat/completions", "openai"),
            (
                "https://api.deepseek.com",
                "https://api.deepseek.com/v1/chat/completions",
                "openai(api.deepseek.com)",
            ),
            (
                "https://openrouter.ai/api/v1",
                "https://openrouter.ai/api/v1/chat/completions",
                "openai(openrouter.ai)",
            ),
            (
                "http://127.0.0.1:11434",
                "http://127.0.0.1:11434/v1/chat/completions",
                "openai(127.0.0.1:11434)",
            ),
            ("http://h:1/v1/chat/completions", "http://h:1/v1/chat/completions", "openai(h:1)"),
            ("http://h:1/d?api-version=2", "http://h:1/d/chat/completions?api-version=2", "openai(h:1)"),
        ] {
            assert_eq!(address(base).unwrap().as_str(), want);
            assert_eq!(provider_name(base).unwrap(), name);
        }
    }

    #[test]
    fn a_refusal_that_names_a_field_teaches_the_dialect() {
        let error = |status, message: &str| ProviderError {
            kind: Failure::Invalid,
            message: message.to_owned(),
            status: Some(status),
            request_id: None,
        };
        let own = Dialect::COMPLETION_TOKENS;
        for (from, status, message, want) in [
            (
                0,
                400,
                "Unrecognized request argument supplied: stream_options",
                Some(Dialect::NO_STREAM_OPTIONS),
            ),
            (0, 422, "body.stream_options: Extra inputs are not permitted", Some(Dialect::NO_STREAM_OPTIONS)),
            (Dialect::NO_STREAM_OPTIONS, 400, "stream_options", None),
            (0, 500, "stream_options", None),
            (
                0,
                400,
                "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                Some(own),
            ),
            (own, 400, "unknown field max_completion_tokens", Some(0)),
            (0, 400, "max_tokens is too large: 9", None),
            (own, 400, "Unsupported value: 'reasoning_effort'", Some(own | Dialect::NO_EFFORT)),
        ] {
            assert_eq!(Dialect(from).after(&error(status, message)), want.map(Dialect), "{message}");
        }
    }
}

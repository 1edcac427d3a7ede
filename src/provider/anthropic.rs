//! Anthropic Messages: the adapter between our messages and that protocol.

mod decode;
mod encode;

#[cfg(test)]
mod decode_tests;
#[cfg(test)]
mod encode_tests;

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Url;

use self::decode::Decoder;
use self::encode::{Body, Carry};
use super::http::{Service, parsed, place};
use super::{EventStream, Failure, ModelInfo, ModelProvider, ProviderError, Request, reply};
use crate::config::Endpoint;

/// A model behind the Messages API.
#[derive(Debug)]
pub(crate) struct Anthropic {
    service: Arc<Service>,
    info: ModelInfo,
}

impl Anthropic {
    /// `info` is completed by the caller; no connection is made.
    pub(crate) fn new(endpoint: &Endpoint, info: ModelInfo) -> Result<Self, ProviderError> {
        let service = Service::new(endpoint, &info.name, address(&endpoint.base_url)?)?;
        Ok(Self { service: Arc::new(service), info })
    }
}

/// The provider's name in a `ModelId`: with its host unless it is Anthropic's own.
pub(crate) fn provider_name(base_url: &str) -> Result<String, ProviderError> {
    let place = place(&parsed(base_url)?);
    Ok(if place == "api.anthropic.com" { "anthropic".to_owned() } else { format!("anthropic({place})") })
}

/// `{base}/v1/messages`; a base that ends in `/v1` or `/messages` is taken as meant.
fn address(base_url: &str) -> Result<Url, ProviderError> {
    let mut url = parsed(base_url)?;
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&if path.ends_with("/messages") {
        path
    } else if path.ends_with("/v1") {
        format!("{path}/messages")
    } else {
        format!("{path}/v1/messages")
    });
    Ok(url)
}

#[async_trait]
impl ModelProvider for Anthropic {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: Request<'_>) -> Result<EventStream, ProviderError> {
        let body = Body::new(&self.info, request, Carry::Thinking)?;
        let carried = body.thinks;
        let response = match self.service.send(body.bytes).await {
            // Newer models bind thinking to the very conversation it was made in, and some refuse to have it
            // switched: what a compaction or a switch of models broke must not end the session.
            Err(error) if carried && refuses_thinking(&error) => {
                self.service.send(Body::new(&self.info, request, Carry::NoThinking)?.bytes).await?
            }
            other => other?,
        };
        Ok(reply::events(Arc::clone(&self.service), response, Box::new(Decoder::default())))
    }
}

fn refuses_thinking(error: &ProviderError) -> bool {
    error.status == Some(400) && error.kind == Failure::Invalid && error.message.contains("thinking")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_and_name_of_a_base_url() {
        for (base, want, name) in [
            ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages", "anthropic"),
            ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages", "anthropic"),
            ("http://127.0.0.1:80/", "http://127.0.0.1/v1/messages", "anthropic(127.0.0.1)"),
            ("http://h:1/peer/x", "http://h:1/peer/x/v1/messages", "anthropic(h:1)"),
            ("http://h:1/v1/messages?beta=1", "http://h:1/v1/messages?beta=1", "anthropic(h:1)"),
        ] {
            assert_eq!(address(base).unwrap().as_str(), want);
            assert_eq!(provider_name(base).unwrap(), name);
        }
    }
}

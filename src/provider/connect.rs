//! From an endpoint and a model's name to a provider.

use std::sync::Arc;

use super::anthropic::{self, Anthropic};
use super::catalog::Catalog;
use super::openai::{self, OpenAi};
use super::{ModelProvider, ProviderError, ThinkingStyle};
use crate::config::{Endpoint, Protocol};
use crate::protocol::ModelId;

/// Gets a model of an endpoint ready; no connection is made. `model` is its name at the service, aliases resolved.
///
/// Fails if the base URL, the key or a CA file can't be used; the message says which.
pub fn connect(
    endpoint: &Endpoint,
    model: &str,
    catalog: &Catalog,
) -> Result<Arc<dyn ModelProvider>, ProviderError> {
    let mut info = catalog.lookup(model);
    match endpoint.protocol {
        Protocol::Anthropic => {
            info.id = ModelId::new(&anthropic::provider_name(&endpoint.base_url)?, model);
            if !info.known {
                // Nothing is sent unless the user asks for an effort.
                info.thinking = ThinkingStyle::Budget;
            }
            Ok(Arc::new(Anthropic::new(endpoint, info)?))
        }
        Protocol::OpenAi => {
            info.id = ModelId::new(&openai::provider_name(&endpoint.base_url)?, model);
            if !info.known {
                info.thinking = ThinkingStyle::Effort;
            }
            Ok(Arc::new(OpenAi::new(endpoint, info)?))
        }
    }
}

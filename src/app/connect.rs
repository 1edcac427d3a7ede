//! From a choice of model to a provider; the only place that contacts anything before a turn.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::StartError;
use crate::config::{Endpoint, ModelChoice, Protocol, Timers};
use crate::provider::offline::OfflineModel;
use crate::provider::scripted::Scripted;
use crate::provider::{self, Candidate, Catalog, ModelProvider};

/// A local model server that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModel {
    /// What kind of server, for people.
    pub server: String,
    /// Its base URL.
    pub base_url: String,
    /// Its models.
    pub models: Vec<String>,
}

/// Makes providers for one session.
#[derive(Debug)]
pub(super) struct Connector {
    choice: ModelChoice,
    catalog: Catalog,
}

impl Connector {
    pub(super) fn new(choice: ModelChoice, models: &Value) -> Result<Self, StartError> {
        let catalog = Catalog::with_overrides(models).map_err(StartError::Usage)?;
        Ok(Self { choice, catalog })
    }

    /// The model that the configuration names.
    pub(super) async fn chosen(&self) -> Result<Arc<dyn ModelProvider>, StartError> {
        match &self.choice {
            ModelChoice::Offline { .. } => Ok(Arc::new(OfflineModel::default())),
            ModelChoice::Script(path) => script(path),
            ModelChoice::Auto => {
                let found = local_models().await;
                let Some(server) = found.first() else {
                    return Err(StartError::NoModel(
                        "No local model server answers at Ollama's, LM Studio's or llama.cpp's address. \
                         Start one, or set ANTHROPIC_API_KEY or OPENAI_API_KEY."
                            .to_owned(),
                    ));
                };
                let endpoint = local_endpoint(&server.base_url);
                let model = server.models.first().map_or("default", String::as_str);
                self.service(&endpoint, model)
            }
            ModelChoice::Service { name, endpoint } => self.service(endpoint, name),
        }
    }

    /// Another model by name, at the service in use.
    pub(super) async fn named(&self, name: &str) -> Result<Arc<dyn ModelProvider>, StartError> {
        match (name, &self.choice) {
            ("offline", _) => Ok(Arc::new(OfflineModel::default())),
            ("auto", _) => {
                Box::pin(Self { choice: ModelChoice::Auto, catalog: self.catalog.clone() }.chosen()).await
            }
            (_, ModelChoice::Service { endpoint, .. }) => self.service(endpoint, name),
            (_, ModelChoice::Offline { .. } | ModelChoice::Script(_) | ModelChoice::Auto) => {
                Err(StartError::NoModel(format!(
                    "no service is set up for {name:?}; start reagent with a key (see /help)"
                )))
            }
        }
    }

    fn service(&self, endpoint: &Endpoint, model: &str) -> Result<Arc<dyn ModelProvider>, StartError> {
        let alias = self.catalog.resolve_alias(model);
        let model = alias.as_ref().map_or(model, |alias| alias.model.as_str());
        provider::connect(endpoint, model, &self.catalog).map_err(|e| StartError::Usage(e.to_string()))
    }
}

fn script(path: &Path) -> Result<Arc<dyn ModelProvider>, StartError> {
    match Scripted::load(path) {
        Ok(scripted) => Ok(Arc::new(scripted)),
        Err(error) => Err(StartError::Usage(error.to_string())),
    }
}

/// Looks at the usual addresses of local servers.
pub(super) async fn local_models() -> Vec<LocalModel> {
    let found = provider::find_local(&Candidate::usual()).await;
    found
        .into_iter()
        .map(|server| LocalModel {
            server: server.kind.name().to_owned(),
            base_url: server.base_url,
            models: server.models,
        })
        .collect()
}

fn local_endpoint(base_url: &str) -> Endpoint {
    Endpoint {
        protocol: Protocol::OpenAi,
        base_url: base_url.to_owned(),
        key: None,
        ca_files: Vec::new(),
        text_calls: true,
        timers: Timers::default(),
    }
}

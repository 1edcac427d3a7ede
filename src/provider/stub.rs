//! stub
use super::{Arc, Debug, EventStream, ModelInfo, ModelProvider, ProviderError, Request, async_trait};
#[derive(Debug, Clone)]
pub struct Catalog;
impl Catalog {
    pub fn with_overrides(_: &serde_json::Value) -> Result<Self, String> {
        Ok(Self)
    }
}
#[derive(Debug)]
pub struct Offline;
impl Default for Offline {
    fn default() -> Self {
        Self::new()
    }
}

impl Offline {
    pub fn new() -> Self {
        Self
    }
}
#[async_trait]
impl ModelProvider for Offline {
    fn info(&self) -> &ModelInfo {
        unimplemented!()
    }
    async fn stream(&self, _: Request<'_>) -> Result<EventStream, ProviderError> {
        unimplemented!()
    }
}
#[derive(Debug)]
pub struct Scripted;
impl Scripted {
    pub fn load(_: &std::path::Path) -> Result<Self, String> {
        Ok(Self)
    }
}
#[async_trait]
impl ModelProvider for Scripted {
    fn info(&self) -> &ModelInfo {
        unimplemented!()
    }
    async fn stream(&self, _: Request<'_>) -> Result<EventStream, ProviderError> {
        unimplemented!()
    }
}
pub fn connect(
    _: &crate::config::Endpoint,
    _: &str,
    _: &Catalog,
) -> Result<Arc<dyn ModelProvider>, ProviderError> {
    unimplemented!()
}
pub mod probe {
    pub struct L {
        pub kind: String,
        pub base_url: String,
        pub models: Vec<String>,
    }
    pub async fn local_servers() -> Vec<L> {
        vec![]
    }
}

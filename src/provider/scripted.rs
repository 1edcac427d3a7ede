//! stub
use super::*;
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

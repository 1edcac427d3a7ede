//! Looks for model servers on this machine, by addresses whose replies only they give.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Client;
use serde_json::Value;

use super::http::install_tls;

/// How long one server may take, all its requests together.
const BOUND: Duration = Duration::from_millis(300);

/// Largest reply that is read, in bytes.
const MAX_REPLY: usize = 1024 * 1024;

/// The kinds of servers that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalKind {
    /// Ollama.
    Ollama,
    /// LM Studio.
    LmStudio,
    /// llama.cpp's own server.
    LlamaCpp,
}

impl LocalKind {
    /// Its name as its makers write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ollama => "Ollama",
            Self::LmStudio => "LM Studio",
            Self::LlamaCpp => "llama.cpp",
        }
    }
}

/// A place to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What may be there.
    pub kind: LocalKind,
    /// `host:port`.
    pub address: String,
}

impl Candidate {
    /// Where the known servers listen if nobody changed it.
    #[must_use]
    pub fn usual() -> Vec<Self> {
        [
            (LocalKind::Ollama, "127.0.0.1:11434"),
            (LocalKind::LmStudio, "127.0.0.1:1234"),
            (LocalKind::LlamaCpp, "127.0.0.1:8080"),
        ]
        .map(|(kind, address)| Self { kind, address: address.to_owned() })
        .to_vec()
    }
}

/// A server that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    /// What it is.
    pub kind: LocalKind,
    /// Base URL of its OpenAI-compatible side.
    pub base_url: String,
    /// The models it names; may be empty.
    pub models: Vec<String>,
}

/// Looks at all places at once; those where nobody, or somebody else, answers are left out.
pub async fn find_local(candidates: &[Candidate]) -> Vec<LocalServer> {
    install_tls();
    // No proxy, no certificates, no redirects: this is about this machine alone.
    let client = Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .build();
    let Ok(client) = client else { return Vec::new() };
    let looks = candidates.iter().map(|candidate| look(&client, candidate));
    join_all(looks).await.into_iter().flatten().collect()
}

async fn look(client: &Client, candidate: &Candidate) -> Option<LocalServer> {
    let root = format!("http://{}", candidate.address);
    let deadline = tokio::time::Instant::now() + BOUND;
    let get = |path: &'static str| {
        let url = format!("{root}{path}");
        async move { tokio::time::timeout_at(deadline, json(client, url)).await.ok().flatten() }
    };
    // The list of models is worth having, but the server is there without it.
    let models = match candidate.kind {
        LocalKind::Ollama => {
            get("/api/version").await?.get("version")?.as_str()?;
            get("/api/tags").await.map(|reply| names(&reply, "models", "name"))
        }
        LocalKind::LmStudio => {
            let reply = get("/api/v0/models").await?;
            let list = reply.get("data")?.as_array()?;
            // The `state` of a model is a field of LM Studio's own.
            let own = reply.get("object")?.as_str()? == "list"
                && list.iter().all(|model| model.get("state").is_some());
            own.then(|| names(&reply, "data", "id"))?.into()
        }
        LocalKind::LlamaCpp => {
            get("/props").await?.get("default_generation_settings")?.as_object()?;
            get("/v1/models").await.map(|reply| names(&reply, "data", "id"))
        }
    };
    Some(LocalServer {
        kind: candidate.kind,
        base_url: format!("{root}/v1"),
        models: models.unwrap_or_default(),
    })
}

async fn json(client: &Client, url: String) -> Option<Value> {
    let mut response = client.get(url).send().await.ok().filter(|response| response.status().is_success())?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_REPLY {
            return None;
        }
    }
    serde_json::from_slice(&body).ok()
}

fn names(reply: &Value, list: &str, field: &str) -> Vec<String> {
    let models = reply.get(list).and_then(Value::as_array);
    models
        .into_iter()
        .flatten()
        // Those can't chat.
        .filter(|model| model.get("type").and_then(Value::as_str) != Some("embeddings"))
        .filter_map(|model| model.get(field)?.as_str().map(str::to_owned))
        .collect()
}

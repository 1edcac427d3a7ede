//! One HTTP client per endpoint: what it trusts, how long it waits, and what its failures mean.

use std::path::Path;
use std::time::{Duration, SystemTime};

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER,
};
use http::{HeaderValue, StatusCode};
use reqwest::{Certificate, Client, Response, Url};

use super::cause;
use super::failure::{ErrorReply, one_line};
use super::{Failure, ProviderError};
use crate::config::{Endpoint, Protocol, Secret, Timers};

/// How much of an error's body is read, in bytes.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// How long an error's body may take.
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);

/// Where services put their id of a request.
const REQUEST_ID: [&str; 5] = ["request-id", "x-request-id", "x-generation-id", "cf-ray", "x-amzn-requestid"];

/// A place that answers model calls, and how it is reached.
#[derive(Debug)]
pub(crate) struct Service {
    client: Client,
    url: Url,
    key: Option<Secret>,
    headers: HeaderMap,
    protocol: Protocol,
    model: String,
    pub(crate) timers: Timers,
    /// Host, with its port where that is not the scheme's own.
    pub(crate) place: String,
}

impl Service {
    /// Builds the client; no connection is made. `url` is the full address of the calls.
    pub(crate) fn new(endpoint: &Endpoint, model: &str, url: Url) -> Result<Self, ProviderError> {
        let place = place(&url);
        let client = client(endpoint, &url, &place)?;
        let headers = headers(endpoint)?;
        Ok(Self {
            client,
            place,
            url,
            headers,
            key: endpoint.key.clone(),
            protocol: endpoint.protocol,
            model: model.to_owned(),
            timers: endpoint.timers,
        })
    }

    /// Makes one attempt: the response with its headers, or why there is none.
    pub(crate) async fn send(&self, body: Vec<u8>) -> Result<Response, ProviderError> {
        let sent = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body).send();
        let response = match tokio::time::timeout(self.timers.headers, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.masked(cause::of(&error, &self.place))),
            Err(_) => {
                let limit = self.timers.headers.as_secs_f64();
                let text = format!("{} sent no response headers within {limit} s", self.place);
                return Err(ProviderError::new(Failure::Transient { retry_after: None }, text));
            }
        };
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    async fn refusal(&self, mut response: Response) -> ProviderError {
        let status = response.status();
        let request_id = request_id(response.headers());
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let target = header(response.headers(), LOCATION.as_str()).unwrap_or_default();
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                let room = MAX_ERROR_BODY.saturating_sub(body.len());
                body.extend(chunk.iter().take(room));
                if chunk.len() >= room {
                    break;
                }
            }
        };
        // What came until then is enough to say why.
        let _late = tokio::time::timeout(ERROR_BODY_TIME, read).await.is_err();
        let mut reply = ErrorReply::read(&body);
        if status.is_redirection() {
            reply.message =
                format!("the address has moved to '{}'; set the base URL to it", one_line(&target, 200));
        }
        let kind = reply.classify(Some(status.as_u16()), retry_after);
        self.masked(ProviderError {
            kind,
            message: self.worded(kind, status, &reply),
            status: Some(status.as_u16()),
            request_id,
        })
    }

    /// The service's own words first, then what the user can do.
    fn worded(&self, kind: Failure, status: StatusCode, reply: &ErrorReply) -> String {
        let said = if reply.message.is_empty() {
            status.canonical_reason().unwrap_or("no reason given")
        } else {
            &reply.message
        };
        let head = format!("{} answered {}: {said}", self.place, status.as_u16());
        let variable = match self.protocol {
            Protocol::Anthropic => "ANTHROPIC_API_KEY",
            Protocol::OpenAi => "OPENAI_API_KEY",
        };
        match kind {
            Failure::Auth if self.key.is_none() => format!("{head} (no key is set; set {variable})"),
            Failure::Auth => format!("{head} (check the key in {variable} and what it may do)"),
            Failure::NotFound => {
                format!("{head} (asked for model '{}' at {}; check both)", self.model, bare(&self.url))
            }
            Failure::Transient { .. }
            | Failure::Unreachable
            | Failure::Cut
            | Failure::ContextOverflow
            | Failure::Quota
            | Failure::Invalid
            | Failure::NoModel => head,
        }
    }

    /// Takes the key out of an error's text: some servers echo what they were sent.
    pub(crate) fn masked(&self, mut error: ProviderError) -> ProviderError {
        if let Some(key) = self.key.as_ref().map(Secret::expose).filter(|key| key.len() >= 4) {
            for text in std::iter::once(&mut error.message).chain(error.request_id.as_mut()) {
                if text.contains(key) {
                    *text = text.replace(key, "***");
                }
            }
        }
        error
    }
}

/// The address of a base URL, or an error that says what is wrong with it.
pub(crate) fn parsed(base_url: &str) -> Result<Url, ProviderError> {
    let base = base_url.trim();
    let wrong = |why: &str| ProviderError::new(Failure::Invalid, format!("'{}' {why}", one_line(base, 200)));
    if !base.contains("://") {
        return Err(wrong(&format!(
            "is no base URL: it needs a scheme, as in http://{}",
            one_line(base, 200)
        )));
    }
    let url = Url::parse(base).map_err(|error| wrong(&format!("is no base URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("is no base URL: use http://HOST or https://HOST"));
    }
    Ok(url)
}

/// Host, with its port where that is not the scheme's own.
pub(crate) fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The address without user, password and query, any of which may be secret.
fn bare(url: &Url) -> String {
    format!("{}://{}{}", url.scheme(), place(url), url.path())
}

/// The process's TLS code, installed once; a second call changes nothing.
pub(crate) fn install_tls() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _lost_a_race = rustls::crypto::ring::default_provider().install_default().is_err();
    }
}

fn client(endpoint: &Endpoint, url: &Url, place: &str) -> Result<Client, ProviderError> {
    install_tls();
    let mut builder = Client::builder()
        .user_agent(concat!("reagent/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(endpoint.timers.connect)
        // A redirect would carry the key and the conversation to a place that nobody named.
        .redirect(reqwest::redirect::Policy::none())
        // The engine's is the one layer that repeats.
        .retry(reqwest::retry::never());
    if url.scheme() == "http" && !proxy_speaks_tls() {
        // Loading the system's certificates costs more than the rest of a start; nothing here will ask for them.
        builder = builder.tls_certs_only([]);
    } else {
        let mut extra = Vec::new();
        for file in &endpoint.ca_files {
            extra.extend(certificates(file)?);
        }
        if !extra.is_empty() {
            builder = builder.tls_certs_merge(extra);
        }
    }
    builder.build().map_err(|error| {
        let why = cause::deepest(&error);
        let text = if why.contains("No CA certificates") {
            format!(
                "no CA certificates were found on this system, so https://{place} cannot be trusted: install the \
                 package ca-certificates, or name a PEM file with `--ca-file FILE` or SSL_CERT_FILE"
            )
        } else {
            format!("the HTTP client for {place} cannot be built: {why}")
        };
        ProviderError::new(Failure::Invalid, text)
    })
}

fn certificates(file: &Path) -> Result<Vec<Certificate>, ProviderError> {
    let wrong = |why: &str| {
        let text = format!("the CA file '{}' {why}; check `--ca-file`", file.display());
        ProviderError::new(Failure::Invalid, text)
    };
    let bytes = std::fs::read(file).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    let found = Certificate::from_pem_bundle(&bytes)
        .map_err(|error| wrong(&format!("is no PEM file: {}", cause::deepest(&error))))?;
    if found.is_empty() { Err(wrong("holds no certificate in PEM form")) } else { Ok(found) }
}

fn proxy_speaks_tls() -> bool {
    ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
        .iter()
        .filter_map(std::env::var_os)
        .any(|value| value.as_encoded_bytes().starts_with(b"https:"))
}

fn headers(endpoint: &Endpoint) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    // A compressed stream comes in lumps; what is compressed all the same is still read.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if endpoint.protocol == Protocol::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    let Some(key) = endpoint.key.as_ref().map(Secret::expose).filter(|key| !key.is_empty()) else {
        return Ok(headers);
    };
    let (name, text) = match endpoint.protocol {
        Protocol::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
        Protocol::OpenAi => (AUTHORIZATION, format!("Bearer {key}")),
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| {
        ProviderError::new(
            Failure::Auth,
            "the key holds characters that no key has; set it anew, without quotes",
        )
    })?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The service's id of the request, if it gave one.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    REQUEST_ID.iter().find_map(|name| header(headers, name)).map(|id| one_line(&id, 200))
}

/// What the service asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date. Bad values are none.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let number = |name: &str| header(headers, name)?.trim().parse::<f64>().ok();
    let span = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    if let Some(wait) = number("retry-after-ms").and_then(|ms| span(ms / 1000.0)) {
        return Some(wait);
    }
    if let Some(wait) = number(RETRY_AFTER.as_str()).and_then(span) {
        return Some(wait);
    }
    let date = httpdate::parse_http_date(header(headers, RETRY_AFTER.as_str())?.trim()).ok()?;
    date.duration_since(now).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_loop_06_retry_after_in_every_form() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let date = httpdate::fmt_http_date(now + Duration::from_secs(3));
        let past = httpdate::fmt_http_date(now - Duration::from_secs(3));
        for (name, value, want) in [
            ("retry-after", "2", Some(2000)),
            ("retry-after", " 1.5 ", Some(1500)),
            ("retry-after", "1036800", Some(1_036_800_000)),
            ("retry-after", date.as_str(), Some(3000)),
            ("retry-after", past.as_str(), None),
            ("retry-after", "abc", None),
            ("retry-after", "-5", None),
            ("retry-after", "NaN", None),
            ("retry-after", "1e300", None),
            ("retry-after", "", None),
            ("retry-after-ms", "1500", Some(1500)),
            ("retry-after-ms", "x", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
            let got = retry_after(&headers, now).map(|wait| wait.as_millis());
            assert_eq!(got, want, "{name}: {value}");
        }
    }

    #[test]
    fn a_base_url_is_checked_with_a_hint() {
        assert_eq!(parsed(" http://[::1]:8080/v1 ").unwrap().path(), "/v1");
        for (text, hint) in [
            ("localhost:8080", "as in http://localhost:8080"),
            ("ftp://x", "use http://HOST"),
            ("http://", "empty host"),
            ("http://a b", "invalid"),
        ] {
            let message = parsed(text).unwrap_err().message;
            assert!(message.contains(hint), "{text}: {message}");
        }
    }
}

//! Why a request got no response, in words that say what to do.

use std::error::Error;
use std::io;

use super::failure::one_line;
use super::{Failure, ProviderError};

/// What a failed request means. `place` is the host as the user knows it.
pub(crate) fn of(error: &reqwest::Error, place: &str) -> ProviderError {
    let why = deepest(error);
    if let Some(tls) = tls(error) {
        let (kind, text) = match tls {
            rustls::Error::InvalidCertificate(_) => (
                Failure::Invalid,
                format!(
                    "TLS with {place} failed: {tls}. If a company proxy or a private CA signed this certificate, \
                     name the CA's PEM file with `--ca-file FILE` or SSL_CERT_FILE"
                ),
            ),
            rustls::Error::InvalidMessage(_) => (
                Failure::Invalid,
                format!(
                    "TLS with {place} failed: {tls}. If the server speaks plain HTTP, write http:// in its base URL"
                ),
            ),
            other => (Failure::Unreachable, format!("TLS with {place} failed: {other}")),
        };
        return ProviderError::new(kind, text);
    }
    if error.is_connect() {
        let text = if error.is_timeout() {
            format!("{place} did not take the connection in time")
        } else if chain(error).any(|e| e.to_string().contains("dns error")) {
            format!("the name of {place} was not found: {why}. Check the base URL and the network")
        } else if why.contains("handshake") {
            format!(
                "TLS with {place} failed: {why}. If the server speaks plain HTTP, write http:// in its base URL"
            )
        } else {
            let hint =
                proxy().map_or_else(String::new, |name| format!(" {name} is set: the proxy may be at fault"));
            format!(
                "cannot connect to {place}: {why}. Is the server running, and is the base URL right?{hint}"
            )
        };
        return ProviderError::new(Failure::Unreachable, text);
    }
    if error.is_builder() {
        return ProviderError::new(Failure::Invalid, format!("the request to {place} cannot be made: {why}"));
    }
    ProviderError::new(Failure::Cut, format!("the connection to {place} broke: {why}"))
}

/// The words of the first cause, in one line.
pub(crate) fn deepest(error: &(dyn Error + 'static)) -> String {
    let last = chain(error).last().map(ToString::to_string).unwrap_or_default();
    one_line(&last, 300)
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        // An I/O error that wraps another does not name it as its source but skips it.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

/// The variable that names a proxy, if there is one: the fault may be the proxy's.
fn proxy() -> Option<&'static str> {
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
        .into_iter()
        .find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    chain(error).find_map(|error| error.downcast_ref::<rustls::Error>())
}

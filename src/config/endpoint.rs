//! Where a model is reached, with what key and with which patience.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A key. It never shows itself; only [`Secret::expose`] gives the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a key as it came; blanks around it are dropped.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The text, for the header alone.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Which protocol an endpoint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI-compatible Chat Completions.
    OpenAi,
}

/// A model service.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// What it speaks.
    pub protocol: Protocol,
    /// Root of the API without a trailing slash: `https://api.anthropic.com`, `http://127.0.0.1:8080/v1`.
    pub base_url: String,
    /// The key; local servers need none.
    pub key: Option<Secret>,
    /// Extra CA certificates (PEM files), beside the system's.
    pub ca_files: Vec<PathBuf>,
    /// A call of an offered tool that the model wrote as text is run as a call.
    pub text_calls: bool,
    /// Bounds on each phase of a request.
    pub timers: Timers,
}

/// How long each phase of a request may take; nothing bounds the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// Until the connection stands, TLS included.
    pub connect: Duration,
    /// From the request to the response's headers.
    pub headers: Duration,
    /// From the headers to the first event.
    pub first_event: Duration,
    /// Between two events; keep-alive comments count as life.
    pub silence: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            headers: Duration::from_mins(2),
            first_event: Duration::from_mins(2),
            silence: Duration::from_secs(90),
        }
    }
}

/// How a failed model call is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Further attempts after the first.
    pub max: u32,
    /// Wait before the first further attempt; doubles each time.
    pub base: Duration,
    /// Longest wait of our own choice.
    pub cap: Duration,
    /// Longest wait that a server may ask for; beyond it the call has failed.
    pub max_server_wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max: 10,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            max_server_wait: Duration::from_secs(90),
        }
    }
}

/// How hard the model should think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Not at all, where the model can do without.
    None,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As much as it can.
    Max,
}

impl Effort {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Max => "max",
        }
    }
}

impl FromStr for Effort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" | "off" => Ok(Self::None),
            "low" | "minimal" => Ok(Self::Low),
            "medium" => Ok(Self::Medium),
            "high" => Ok(Self::High),
            "max" | "xhigh" => Ok(Self::Max),
            other => Err(format!("unknown effort '{other}'; use none, low, medium, high or max")),
        }
    }
}

//! The two model services as the layers describe them, and which of them a run talks to.

use std::path::PathBuf;
use std::time::Duration;

use super::model::protocol_of;
use super::resolve::{Env, Flags, env_number, pick};
use super::{ConfigError, Endpoint, Fact, ModelChoice, Origin, Protocol, Secret, Settings, Sourced, Timers};
use crate::protocol::Mask;

/// What the choice of a model reads, and what it reports.
pub(super) struct Layers<'a> {
    pub(super) flags: &'a Flags,
    pub(super) env: &'a Env,
    pub(super) user: &'a Settings,
    pub(super) mask: &'a Mask,
    pub(super) facts: &'a mut Vec<Fact>,
}

pub(super) fn choose_model(layers: &mut Layers<'_>) -> Result<Sourced<ModelChoice>, ConfigError> {
    let (flags, env, user) = (layers.flags, layers.env, layers.user);
    if flags.mock {
        return Ok(Sourced::new(ModelChoice::Offline { chosen: true }, Origin::Flag("--mock")));
    }
    let anthropic = Service::read(Protocol::Anthropic, layers)?;
    let openai = Service::read(Protocol::OpenAi, layers)?;
    // An address on the command line is where this run goes, whatever else is set up.
    let addressed = flags.base_url.is_some().then(|| meant_by_name(layers)).transpose()?;
    let may_serve =
        |service: &Service| addressed.is_none_or(|protocol| protocol == service.endpoint.protocol);
    let named = pick([
        (flags.model.clone(), Origin::Flag("--model")),
        (env.switch("QUERY_MOCK").unwrap_or(false).then(|| "offline".to_owned()), Origin::Env("QUERY_MOCK")),
        (env.get("REAGENT_MODEL").map(str::to_owned), Origin::Env("REAGENT_MODEL")),
    ]);
    let of_file = user.text("model")?.map(|name| Sourced::new(name, Origin::User(user.path.clone())));
    let named = match named {
        Some(named) => Some(named),
        // ANTHROPIC_MODEL and OPENAI_MODEL speak for their own service, which must be set up; they beat the file.
        None => [&anthropic, &openai]
            .into_iter()
            .filter(|service| may_serve(service))
            .find_map(|service| service.env_model(env))
            .or(of_file),
    };
    let Some(Sourced { value: name, origin }) = named else {
        let service =
            [anthropic, openai].into_iter().find(|service| service.is_set_up() && may_serve(service));
        let choice = match service {
            Some(service) => {
                ModelChoice::Service { name: service.default_model(), endpoint: Box::new(service.endpoint) }
            }
            None => ModelChoice::Offline { chosen: false },
        };
        return Ok(Sourced::new(choice, Origin::Default));
    };
    let choice = match (name.as_str(), name.strip_prefix("script:")) {
        ("offline" | "mock", _) => ModelChoice::Offline { chosen: true },
        ("auto", _) => ModelChoice::Auto,
        (_, Some(path)) => ModelChoice::Script(flags.cwd.join(path)),
        (name, None) => {
            let (protocol, name) = protocol_of(name);
            // A gateway may serve any model: the name decides only where both or neither are set up.
            let of_anthropic = match (addressed, protocol) {
                (Some(wanted), _) => wanted == Protocol::Anthropic,
                (None, Some(Protocol::Anthropic)) => anthropic.is_set_up() || !openai.is_custom(),
                (None, Some(Protocol::OpenAi) | None) => !openai.is_set_up() && anthropic.is_custom(),
            };
            if of_anthropic { anthropic } else { openai }.ready(name)?
        }
    };
    Ok(Sourced::new(choice, origin))
}

/// What `--base-url` speaks: as the model's name says, wherever it stands, else as most servers do.
fn meant_by_name(layers: &Layers<'_>) -> Result<Protocol, ConfigError> {
    let name = match layers.flags.model.as_deref().or_else(|| layers.env.get("REAGENT_MODEL")) {
        Some(name) => Some(name.to_owned()),
        None => layers.user.text("model")?,
    };
    Ok(name.and_then(|name| protocol_of(&name).0).unwrap_or(Protocol::OpenAi))
}

/// One of the two services as the layers describe it.
struct Service {
    endpoint: Endpoint,
    custom: bool,
}

impl Service {
    fn read(protocol: Protocol, layers: &mut Layers<'_>) -> Result<Self, ConfigError> {
        let (flags, env, user) = (layers.flags, layers.env, layers.user);
        let (section, default, key_name, url_name) = match protocol {
            Protocol::Anthropic => {
                ("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
            }
            Protocol::OpenAi => ("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        };
        let user_origin = || Origin::User(user.path.clone());
        let meant = meant_by_name(layers)?;
        let url = pick([
            (flags.base_url.clone().filter(|_| meant == protocol), Origin::Flag("--base-url")),
            (env.get(url_name).map(str::to_owned), Origin::Env(url_name)),
            (user.text(&format!("{section}.baseUrl"))?, user_origin()),
        ]);
        let key = pick([
            (env.get(key_name).map(str::to_owned), Origin::Env(key_name)),
            (user.text(&format!("{section}.apiKey"))?, user_origin()),
        ]);
        if let Some(key) = &key {
            layers.mask.add(&key.value);
            let name = format!("{section} key");
            layers.facts.push(Fact { name, value: "set".to_owned(), origin: key.origin.clone() });
        }
        if let Some(url) = &url {
            layers.mask.add_password(&url.value);
            let mut value = url.value.clone();
            layers.mask.apply(&mut value);
            layers.facts.push(Fact { name: format!("{section} url"), value, origin: url.origin.clone() });
        }
        let custom = url.is_some();
        let base_url =
            url.map_or_else(|| default.to_owned(), |url| url.value.trim().trim_end_matches('/').to_owned());
        if !(base_url.starts_with("http://") || base_url.starts_with("https://")) {
            let mut message = format!("{base_url:?} is no base URL: it must begin with http:// or https://");
            layers.mask.apply(&mut message);
            return Err(ConfigError::Usage(message));
        }
        let mut ca_files = user.texts("caFiles")?.into_iter().map(PathBuf::from).collect::<Vec<_>>();
        ca_files.extend(flags.ca_files.iter().cloned());
        let endpoint = Endpoint {
            protocol,
            base_url,
            key: key.map(|key| Secret::new(&key.value)),
            ca_files,
            text_calls: user.flag("textToolCalls")?.unwrap_or(true),
            timers: timers(user, env)?,
        };
        Ok(Self { endpoint, custom })
    }

    /// A key, or an address of the user's own: local servers need no key.
    fn is_set_up(&self) -> bool {
        self.endpoint.key.is_some() || self.custom
    }

    fn is_custom(&self) -> bool {
        self.custom
    }

    fn env_model(&self, env: &Env) -> Option<Sourced<String>> {
        let name = match self.endpoint.protocol {
            Protocol::Anthropic => "ANTHROPIC_MODEL",
            Protocol::OpenAi => "OPENAI_MODEL",
        };
        let model = env.get(name).filter(|_| self.is_set_up())?;
        let model = match (self.endpoint.protocol, protocol_of(model).0) {
            (Protocol::Anthropic, Some(Protocol::Anthropic)) | (Protocol::OpenAi, Some(Protocol::OpenAi)) => {
                model.to_owned()
            }
            (Protocol::Anthropic, _) => format!("anthropic/{model}"),
            (Protocol::OpenAi, _) => format!("openai/{model}"),
        };
        Some(Sourced::new(model, Origin::Env(name)))
    }

    fn default_model(&self) -> String {
        match self.endpoint.protocol {
            Protocol::Anthropic => "sonnet".to_owned(),
            Protocol::OpenAi if self.endpoint.base_url.contains("deepseek.com") => "deepseek".to_owned(),
            Protocol::OpenAi => "gpt".to_owned(),
        }
    }

    fn ready(self, name: &str) -> Result<ModelChoice, ConfigError> {
        if !self.is_set_up() {
            let (key, url) = match self.endpoint.protocol {
                Protocol::Anthropic => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
                Protocol::OpenAi => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
            };
            return Err(ConfigError::NoModel(format!(
                "No key for the model {name}: set {key} (or {url} for a server of your own), or use --model offline."
            )));
        }
        Ok(ModelChoice::Service { name: name.to_owned(), endpoint: Box::new(self.endpoint) })
    }
}

fn timers(user: &Settings, env: &Env) -> Result<Timers, ConfigError> {
    let mut timers = Timers::default();
    let fields = [
        ("connect", "REAGENT_TIMEOUT_CONNECT", &mut timers.connect),
        ("headers", "REAGENT_TIMEOUT_HEADERS", &mut timers.headers),
        ("firstEvent", "REAGENT_TIMEOUT_FIRST_EVENT", &mut timers.first_event),
        ("silence", "REAGENT_TIMEOUT_SILENCE", &mut timers.silence),
    ];
    for (key, name, slot) in fields {
        let key = format!("timeouts.{key}");
        let seconds: Option<f64> = match env_number(env, name)? {
            Some(seconds) => Some(seconds),
            None => user.number(&key)?,
        };
        if let Some(seconds) = seconds {
            if !(0.05..=86_400.0).contains(&seconds) {
                return Err(ConfigError::Usage(format!(
                    "{key} ({name}) must be between 0.05 and 86400 seconds"
                )));
            }
            *slot = Duration::from_secs_f64(seconds);
        }
    }
    Ok(timers)
}

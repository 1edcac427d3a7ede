//! Folds flags over environment over the user's settings, field by field, into one [`Config`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::model::protocol_of;
use super::settings::value_error;
use super::{
    Config, ConfigError, Effort, Endpoint, Fact, Folders, ModelChoice, Origin, Protocol, Retry, Secret,
    Settings, Sourced, Timers,
};
use crate::protocol::{Mask, Mode};

/// The environment as it was at the start; an empty value counts as unset.
#[derive(Debug, Clone, Default)]
pub struct Env(HashMap<String, String>);

impl Env {
    /// Takes name and value pairs.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect())
    }

    /// A value that is set and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn switch(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !matches!(value.trim(), "0" | "false" | "off" | "no"))
    }
}

/// What the command line said, parsed but not yet judged.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one field a flag")]
pub struct Flags {
    /// `--cwd`, or the folder the process was started in.
    pub cwd: PathBuf,
    /// `--add-dir`.
    pub add_dirs: Vec<PathBuf>,
    /// `--model`.
    pub model: Option<String>,
    /// `--mock`.
    pub mock: bool,
    /// `--base-url`.
    pub base_url: Option<String>,
    /// `--ca-file`.
    pub ca_files: Vec<PathBuf>,
    /// `--effort`.
    pub effort: Option<String>,
    /// `--permission-mode`.
    pub mode: Option<String>,
    /// `--dangerously-skip-permissions`.
    pub skip_permissions: bool,
    /// `--allow-write`.
    pub allow_write: bool,
    /// `--allowedTools`.
    pub allow: Vec<String>,
    /// `--disallowedTools`.
    pub deny: Vec<String>,
    /// `--max-turns`.
    pub max_turns: Option<u32>,
    /// `--max-budget-usd`.
    pub max_cost: Option<f64>,
    /// `--max-tokens`.
    pub max_tokens: Option<u64>,
    /// `--max-time`, seconds.
    pub max_time: Option<u64>,
    /// `--max-retries`.
    pub max_retries: Option<u32>,
    /// `--system-prompt`.
    pub system_prompt: Option<String>,
    /// `--append-system-prompt`.
    pub append_system_prompt: Option<String>,
    /// `-c`, `--continue`.
    pub continue_session: bool,
}

/// One value from the strongest layer that has it.
fn pick<T>(layers: impl IntoIterator<Item = (Option<T>, Origin)>) -> Option<Sourced<T>> {
    layers.into_iter().find_map(|(value, origin)| value.map(|value| Sourced::new(value, origin)))
}

/// Folds the layers. Files of the repository are not among them.
pub fn resolve(flags: Flags, env: &Env) -> Result<Config, ConfigError> {
    let folders = Folders::from_env(env);
    let user = Settings::read(&folders.settings())?;
    let mask = Mask::default();
    let cwd = real_folder(&flags.cwd, "--cwd")?;
    let add_dirs = flags
        .add_dirs
        .iter()
        .map(|dir| real_folder(&flags.cwd.join(dir), "--add-dir"))
        .collect::<Result<_, _>>()?;
    let mut facts = Vec::new();
    let model =
        choose_model(&mut Layers { flags: &flags, env, user: &user, mask: &mask, facts: &mut facts })?;
    let user_origin = || Origin::User(user.path.clone());

    let effort = pick([
        (flags.effort.clone(), Origin::Flag("--effort")),
        (env.get("REAGENT_EFFORT").map(str::to_owned), Origin::Env("REAGENT_EFFORT")),
        (user.text("effort")?, user_origin()),
    ])
    .map(|found| match found.value.parse::<Effort>() {
        Ok(value) => Ok(Sourced::new(value, found.origin)),
        Err(error) => Err(ConfigError::Usage(format!("{error} ({})", found.origin))),
    })
    .transpose()?;

    let mode = pick([
        (
            flags.skip_permissions.then(|| "bypassPermissions".to_owned()),
            Origin::Flag("--dangerously-skip-permissions"),
        ),
        (flags.mode.clone(), Origin::Flag("--permission-mode")),
        (user.text("permissionMode")?, user_origin()),
        (user.text("permissions.defaultMode")?, user_origin()),
    ])
    .map(|found| match found.value.parse::<Mode>() {
        Ok(value) => Ok(Sourced::new(value, found.origin)),
        Err(error) => Err(ConfigError::Usage(format!("{error} ({})", found.origin))),
    })
    .transpose()?
    .unwrap_or(Sourced::new(Mode::Default, Origin::Default));

    let allow_write = pick([
        (flags.allow_write.then_some(true), Origin::Flag("--allow-write")),
        (env.switch("ALLOW_WRITE"), Origin::Env("ALLOW_WRITE")),
        (user.flag("allowWrite")?, user_origin()),
    ])
    .unwrap_or(Sourced::new(false, Origin::Default));

    let rules = |key: &str,
                 given: Vec<String>,
                 flag: &'static str|
     -> Result<Vec<Sourced<String>>, ConfigError> {
        let from_file = user.texts(key)?.into_iter().map(|rule| Sourced::new(rule, user_origin()));
        Ok(from_file.chain(given.into_iter().map(|rule| Sourced::new(rule, Origin::Flag(flag)))).collect())
    };

    let mut retry = Retry::default();
    if let Some(max) =
        flags.max_retries.or(env_number(env, "REAGENT_MAX_RETRIES")?).or(whole(&user, "maxRetries")?)
    {
        retry.max = max.min(10);
    }
    Ok(Config {
        allow: rules("permissions.allow", flags.allow, "--allowedTools")?,
        deny: rules("permissions.deny", flags.deny, "--disallowedTools")?,
        max_turns: flags.max_turns.or(whole(&user, "maxTurns")?),
        max_cost: flags.max_cost,
        max_tokens: flags.max_tokens,
        max_time: flags.max_time.map(Duration::from_secs),
        system_prompt: flags.system_prompt,
        append_system_prompt: flags.append_system_prompt,
        continue_session: flags.continue_session,
        models: user.value("models").cloned().unwrap_or(Value::Null),
        warnings: user.warnings.clone(),
        cwd,
        add_dirs,
        folders,
        model,
        effort,
        mode,
        allow_write,
        retry,
        mask,
        facts,
    })
}

fn real_folder(path: &Path, flag: &str) -> Result<PathBuf, ConfigError> {
    let real = path.canonicalize().map_err(|error| {
        ConfigError::Usage(format!("{flag} {}: {error}; name a folder that exists", path.display()))
    })?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(ConfigError::Usage(format!("{flag} {} is not a folder", path.display())))
    }
}

/// What the choice of a model reads, and what it reports.
struct Layers<'a> {
    flags: &'a Flags,
    env: &'a Env,
    user: &'a Settings,
    mask: &'a Mask,
    facts: &'a mut Vec<Fact>,
}

fn choose_model(layers: &mut Layers<'_>) -> Result<Sourced<ModelChoice>, ConfigError> {
    let (flags, env, user) = (layers.flags, layers.env, layers.user);
    if flags.mock {
        return Ok(Sourced::new(ModelChoice::Offline { chosen: true }, Origin::Flag("--mock")));
    }
    let anthropic = Service::read(Protocol::Anthropic, layers)?;
    let openai = Service::read(Protocol::OpenAi, layers)?;
    let named = pick([
        (flags.model.clone(), Origin::Flag("--model")),
        (env.switch("QUERY_MOCK").unwrap_or(false).then(|| "offline".to_owned()), Origin::Env("QUERY_MOCK")),
        (env.get("REAGENT_MODEL").map(str::to_owned), Origin::Env("REAGENT_MODEL")),
    ]);
    let of_file = user.text("model")?.map(|name| Sourced::new(name, Origin::User(user.path.clone())));
    let named = match named {
        Some(named) => Some(named),
        // ANTHROPIC_MODEL and OPENAI_MODEL speak for their own service, which must be set up; they beat the file.
        None => anthropic.env_model(env).or_else(|| openai.env_model(env)).or(of_file),
    };
    let Some(Sourced { value: name, origin }) = named else {
        let service = [anthropic, openai].into_iter().find(Service::is_set_up);
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
            let of_anthropic = match protocol {
                Some(Protocol::Anthropic) => anthropic.is_set_up() || !openai.is_custom(),
                Some(Protocol::OpenAi) | None => !openai.is_set_up() && anthropic.is_custom(),
            };
            if of_anthropic { anthropic } else { openai }.ready(name)?
        }
    };
    Ok(Sourced::new(choice, origin))
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
        // The flag means an OpenAI-compatible server unless the model's name says otherwise.
        let meant = flags.model.as_deref().and_then(|name| protocol_of(name).0).unwrap_or(Protocol::OpenAi);
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
            let name = format!("{section} url");
            layers.facts.push(Fact { name, value: url.value.clone(), origin: url.origin.clone() });
        }
        let custom = url.is_some();
        let base_url =
            url.map_or_else(|| default.to_owned(), |url| url.value.trim().trim_end_matches('/').to_owned());
        if !(base_url.starts_with("http://") || base_url.starts_with("https://")) {
            return Err(ConfigError::Usage(format!(
                "{base_url:?} is no base URL: it must begin with http:// or https://"
            )));
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

fn env_number<T: std::str::FromStr>(env: &Env, name: &str) -> Result<Option<T>, ConfigError> {
    env.get(name)
        .map(|text| {
            text.trim().parse().map_err(|_| ConfigError::Usage(format!("{name}={text} is no such number")))
        })
        .transpose()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole and in range"
)]
fn whole(user: &Settings, key: &str) -> Result<Option<u32>, ConfigError> {
    match user.number(key)? {
        None => Ok(None),
        Some(n) if n.fract() == 0.0 && n <= f64::from(u32::MAX) => Ok(Some(n as u32)),
        Some(_) => Err(value_error(&user.path, key, "must be a whole number")),
    }
}

#[cfg(test)]
mod tests;

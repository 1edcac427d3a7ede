//! Folds flags over environment over the user's settings, field by field, into one [`Config`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::service::{Layers, choose_model};
use super::settings::value_error;
use super::{Config, ConfigError, Effort, Folders, Origin, Retry, Settings, Sourced};
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

    pub(super) fn switch(&self, name: &str) -> Option<bool> {
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
pub(super) fn pick<T>(layers: impl IntoIterator<Item = (Option<T>, Origin)>) -> Option<Sourced<T>> {
    layers.into_iter().find_map(|(value, origin)| value.map(|value| Sourced::new(value, origin)))
}

/// Folds the layers. Files of the repository are not among them.
pub fn resolve(flags: Flags, env: &Env) -> Result<Config, ConfigError> {
    let folders = Folders::from_env(env);
    let user = Settings::read(&folders.settings())?;
    let mask = Mask::default();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        env.get(name).into_iter().for_each(|url| mask.add_password(url));
    }
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

pub(super) fn env_number<T: std::str::FromStr>(env: &Env, name: &str) -> Result<Option<T>, ConfigError> {
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

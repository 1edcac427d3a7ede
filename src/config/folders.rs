//! The user's folders, by the XDG rules on every system.

use std::path::PathBuf;

use super::resolve::Env;

/// Where settings and sessions lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// The user's home, if there is one.
    pub home: Option<PathBuf>,
    /// Settings and the user's own AGENTS.md: `$XDG_CONFIG_HOME/reagent` or `~/.config/reagent`.
    pub config: PathBuf,
    /// Sessions: `$XDG_DATA_HOME/reagent` or `~/.local/share/reagent`.
    pub data: PathBuf,
}

impl Folders {
    /// Reads the environment; a relative path in it is ignored, as the XDG rules say.
    #[must_use]
    pub fn from_env(env: &Env) -> Self {
        let absolute = |name: &str| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME").or_else(|| etcetera::home_dir().ok());
        let base = home.clone().unwrap_or_else(std::env::temp_dir);
        let under =
            |name: &str, rest: &str| absolute(name).unwrap_or_else(|| base.join(rest)).join("reagent");
        Self {
            config: under("XDG_CONFIG_HOME", ".config"),
            data: absolute("REAGENT_DATA_DIR").unwrap_or_else(|| under("XDG_DATA_HOME", ".local/share")),
            home,
        }
    }

    /// The user's settings file.
    #[must_use]
    pub fn settings(&self) -> PathBuf {
        self.config.join("settings.json")
    }
}

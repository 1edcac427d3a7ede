//! One prompt without a person, as scripts run it: exit codes, formats, pipes, signals, leave and settings.

mod failures;
mod flags;
mod leave;
mod precedence;
mod secrets;
mod stdin;
mod stdout;
mod stream;
mod trace;

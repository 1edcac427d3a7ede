//! Integration tests: real servers, real processes, real files.

// `cfg(test)` lets Clippy's `allow-*-in-tests` reach the helper functions too.
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod headless;
#[cfg(test)]
mod loop_bugs;
#[cfg(test)]
mod prefix;
#[cfg(test)]
mod process;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod repl;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod support;
#[cfg(test)]
mod support_test;
#[cfg(test)]
mod tools;

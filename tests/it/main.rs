//! Integration tests: real servers, real processes, real files.

// `cfg(test)` lets Clippy's `allow-*-in-tests` reach the helper functions too.
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod headless;
#[cfg(test)]
mod prefix;
#[cfg(test)]
mod process;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod support;
#[cfg(test)]
mod support_test;
#[cfg(test)]
mod tools;

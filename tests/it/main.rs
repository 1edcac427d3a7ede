//! Integration tests: real servers, real processes, real files.

mod architecture;

//! The `reagent` binary: the hidden supervisor first, then the command line.

use std::process::ExitCode;

use reagent::process::{SUPERVISOR_ARGUMENT, supervise};

fn main() -> ExitCode {
    // Before tokio and clap: the supervisor must start in a millisecond and needs neither.
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == SUPERVISOR_ARGUMENT) {
        return ExitCode::from(u8::try_from(supervise(args)).unwrap_or(u8::MAX));
    }
    reagent::cli::main()
}

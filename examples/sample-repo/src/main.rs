//! `tally FILE`: prints what the receipt in FILE comes to.

use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: tally FILE");
        return ExitCode::from(2);
    };
    match run(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tally: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &str) -> Result<(), Box<dyn Error>> {
    let receipt = tally::parse(&std::fs::read_to_string(path)?)?;
    println!("subtotal {:>9}", receipt.subtotal());
    println!("tax      {:>9}", receipt.tax());
    println!("total    {:>9}", receipt.total());
    Ok(())
}

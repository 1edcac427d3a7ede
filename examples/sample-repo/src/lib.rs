//! Adds up receipts: items, an optional coupon and an optional sales tax.

mod money;
mod parse;
mod receipt;

pub use money::{Money, MoneyError};
pub use parse::{parse, ParseError};
pub use receipt::{Item, Receipt, TaxRate};

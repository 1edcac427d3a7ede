//! Reads a receipt from its plain text form.

use std::fmt;

use crate::{Item, Money, Receipt, TaxRate};

/// A line that is neither an item, a coupon nor a tax rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    pub reason: String,
}

/// Reads one entry a line; blank lines and `#` comments are skipped.
pub fn parse(text: &str) -> Result<Receipt, ParseError> {
    let mut receipt = Receipt::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        add_entry(&mut receipt, line).map_err(|reason| ParseError {
            line: index + 1,
            reason,
        })?;
    }
    Ok(receipt)
}

fn add_entry(receipt: &mut Receipt, line: &str) -> Result<(), String> {
    let (name, amount) = line
        .rsplit_once(char::is_whitespace)
        .ok_or_else(|| format!("`{line}` has no price"))?;
    match name.trim_end() {
        "tax" => receipt.tax_rate = parse_rate(amount)?,
        "coupon" => receipt.coupon = parse_money(amount)?,
        name => receipt.items.push(parse_item(name, amount)?),
    }
    Ok(())
}

fn parse_item(name: &str, price: &str) -> Result<Item, String> {
    let price = parse_money(price)?;
    let (name, quantity) = match name.strip_suffix(" x") {
        Some(counted) => split_quantity(counted)?,
        None => (name, 1),
    };
    Ok(Item {
        name: name.trim_end().to_string(),
        quantity,
        price,
    })
}

fn split_quantity(counted: &str) -> Result<(&str, u64), String> {
    let (name, quantity) = counted
        .trim_end()
        .rsplit_once(char::is_whitespace)
        .ok_or_else(|| format!("`{counted}` has no name or no quantity"))?;
    match quantity.parse() {
        Ok(quantity) => Ok((name, quantity)),
        Err(_) => Err(format!("`{quantity}` is not a quantity")),
    }
}

fn parse_money(text: &str) -> Result<Money, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// A percentage has at most two places, as a sum of money has.
fn parse_rate(text: &str) -> Result<TaxRate, String> {
    let error = || format!("`{text}` is not a rate such as 7.25%");
    let percent = text.strip_suffix('%').ok_or_else(error)?;
    let percent: Money = percent.parse().map_err(|_| error())?;
    Ok(TaxRate(percent.cents()))
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for ParseError {}

//! Whole receipts, from text to total.

use tally::{parse, Item, Money, ParseError};

fn total(text: &str) -> String {
    parse(text).unwrap().total().to_string()
}

#[test]
fn reads_names_quantities_and_prices() {
    let receipt = parse("# shop\n\nrye bread  2 x 1.80\nmilk 0.95\n").unwrap();
    let item = |name: &str, quantity, cents| Item {
        name: name.to_string(),
        quantity,
        price: Money::from_cents(cents),
    };
    assert_eq!(
        receipt.items,
        [item("rye bread", 2, 180), item("milk", 1, 95)]
    );
}

#[test]
fn a_receipt_without_tax_totals_its_items() {
    assert_eq!(total("bread 2 x 1.80\nmilk 0.95\n"), "4.55");
}

#[test]
fn tax_is_added_to_the_subtotal() {
    assert_eq!(
        total("bread 2 x 1.80\nmilk 0.95\ncoupon 0.55\ntax 10%\n"),
        "4.40"
    );
}

#[test]
fn an_error_names_its_line() {
    let errors = [
        ("milk 0.95\nbread\n", 2, "`bread` has no price"),
        (
            "milk free\n",
            1,
            "`free` is not a sum of money such as 12.95",
        ),
        ("milk two x 0.95\n", 1, "`two` is not a quantity"),
        ("tax 7\n", 1, "`7` is not a rate such as 7.25%"),
    ];
    for (text, line, reason) in errors {
        let reason = reason.to_string();
        assert_eq!(parse(text), Err(ParseError { line, reason }), "{text}");
    }
}

//! A receipt and what it comes to.

use crate::Money;

/// One line of goods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    pub quantity: u64,
    pub price: Money,
}

/// Sales tax in hundredths of a percent: 10% is 1000.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaxRate(pub u64);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipt {
    pub items: Vec<Item>,
    pub coupon: Money,
    pub tax_rate: TaxRate,
}

impl Item {
    pub fn cost(&self) -> Money {
        self.price * self.quantity
    }
}

impl TaxRate {
    /// The tax on a sum, rounded half up to the cent.
    pub fn of(self, sum: Money) -> Money {
        Money::from_cents((sum.cents() * self.0 + 5_000) / 10_000)
    }
}

impl Receipt {
    /// The items, less the coupon.
    pub fn subtotal(&self) -> Money {
        let items: Money = self.items.iter().map(Item::cost).sum();
        items - self.coupon
    }

    pub fn tax(&self) -> Money {
        self.tax_rate.of(self.subtotal())
    }

    /// What is to be paid: the subtotal and the tax on it.
    pub fn total(&self) -> Money {
        let subtotal = self.subtotal();
        let tax = self.tax();
        subtotal - tax
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(prices: &[u64], coupon: u64) -> Receipt {
        let item = |&cents: &u64| Item {
            name: "thing".to_string(),
            quantity: 1,
            price: Money::from_cents(cents),
        };
        Receipt {
            items: prices.iter().map(item).collect(),
            coupon: Money::from_cents(coupon),
            tax_rate: TaxRate::default(),
        }
    }

    #[test]
    fn a_quantity_multiplies_the_price() {
        let item = Item {
            name: "bread".to_string(),
            quantity: 3,
            price: Money::from_cents(180),
        };
        assert_eq!(item.cost(), Money::from_cents(540));
    }

    #[test]
    fn a_coupon_is_taken_off_the_items() {
        assert_eq!(receipt(&[360, 95], 55).subtotal(), Money::from_cents(400));
    }

    #[test]
    fn a_coupon_never_takes_off_more_than_the_items_cost() {
        assert_eq!(receipt(&[100], 250).subtotal(), Money::from_cents(0));
    }

    #[test]
    fn tax_is_rounded_half_up() {
        let rate = TaxRate(725);
        assert_eq!(rate.of(Money::from_cents(200)), Money::from_cents(15));
        assert_eq!(rate.of(Money::from_cents(199)), Money::from_cents(14));
    }
}

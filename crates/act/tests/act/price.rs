//! The price of a page that comes back, with and without swap.

use isotherm_act::refault_price;

use crate::zram;

#[test]
fn a_page_has_a_price_where_there_is_swap() {
    let Some(swap) = zram::swap(64) else { return };
    let price = refault_price().unwrap().unwrap();
    assert!(price.pages >= 256, "{price:?}");
    assert!(0.0 < price.p10 && price.p10 <= price.mean && price.mean <= price.p90, "{price:?}");
    // Nothing of it stays there: the memory was our own, and is given back.
    assert!(swap.swapped_bytes().unwrap() < 4 << 20);
    drop(swap);
}

#[test]
fn full_swap_has_no_price() {
    // So little that less than the least number of pages fits in.
    let Some(_swap) = zram::swap(1) else { return };
    assert_eq!(refault_price().unwrap(), None);
}

//! What a scheme that makes huge pages has looked at, and why it asked for nothing, if so.

use isotherm::raw::agent::run::Account;
use isotherm::raw::core::units::bytes;

/// What looks have found, in lines. `least_bp`: the share of pages that have to be touched.
/// `prove`: whether huge pages have to pay. `proved`: what was found out about that last.
pub(super) fn looked_at(a: &Account, least_bp: u32, prove: bool, proved: Option<&str>) -> String {
    let mut text = format!(
        "  looked at {} in units of 2 MiB: in {} of it at least {} of the pages were touched, and {} was \
         huge already\n",
        bytes(a.looked_bytes),
        bytes(a.dense_bytes),
        percent(u64::from(least_bp)),
        bytes(a.huge_bytes),
    );
    if a.asked_bytes == 0 {
        text += &format!("  asked for nothing: {}\n", why_nothing(a, prove, proved));
    }
    text
}

/// Why nothing was asked for.
fn why_nothing(a: &Account, prove: bool, proved: Option<&str>) -> String {
    if a.looked_bytes == 0 {
        return "no memory in use was seen that holds a whole unit of 2 MiB".into();
    }
    if a.looked_bytes == a.huge_bytes {
        return "all of it is huge".into();
    }
    if a.dense_bytes == 0 {
        return format!(
            "in no unit were more than {} of the pages seen touched; a lower `--min-touched` \
             takes units that are used less, and memory grows by what they do not use",
            percent(a.most_touched_bp)
        );
    }
    match (prove, proved) {
        (true, Some(proved)) => proved.to_owned(),
        (true, None) => "it was not found out yet whether huge pages pay; a longer run tells, and \
                         `--prove off` does not ask"
            .into(),
        (false, _) => {
            "units with enough touched pages were kept by filters, by the quota, or refused \
                       shortly before"
                .into()
        }
    }
}

fn percent(bp: u64) -> String {
    format!("{} %", (bp + 50) / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(looked: u64, dense: u64, huge: u64) -> Account {
        Account {
            looked_bytes: looked << 21,
            dense_bytes: dense << 21,
            huge_bytes: huge << 21,
            most_touched_bp: 3_210,
            ..Account::default()
        }
    }

    #[test]
    fn who_asked_for_nothing_says_why() {
        for (a, prove, proved, part) in [
            (account(0, 0, 0), true, None, "no memory in use"),
            (account(4, 0, 4), true, None, "all of it is huge"),
            (account(4, 0, 1), true, None, "more than 32 % of the pages"),
            (account(4, 2, 1), true, None, "not found out yet"),
            (account(4, 2, 1), true, Some("they do not pay"), "nothing: they do not pay"),
            (account(4, 2, 1), false, None, "kept by filters"),
        ] {
            let text = looked_at(&a, 5_000, prove, proved);
            assert!(text.contains("at least 50 %") && text.contains(part), "{part}: {text}");
        }
        let asked = Account { asked_bytes: 1 << 21, ..account(4, 2, 1) };
        let text = looked_at(&asked, 5_000, true, None);
        assert!(text.contains("looked at 8.00 MiB") && !text.contains("nothing"), "{text}");
    }
}

//! Which hosts are in the share of a policy.

use sha2::{Digest, Sha256};

/// Whether a host is in the share of a policy, in basis points. The same host always has the same
/// answer, and who is in a share is in every larger one of the same policy as well. Policies choose
/// independently of each other, so not always the same hosts go first.
pub(crate) fn is_in_share(host: &str, policy: &str, share_bp: u32) -> bool {
    let digest = Sha256::new()
        .chain_update(b"isotherm share\0")
        .chain_update(policy)
        .chain_update(b"\0")
        .chain_update(host)
        .finalize();
    let place = digest[..8].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    u128::from(place) * 10_000 < u128::from(share_bp) << 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_about_that_many_hosts_and_grows_by_adding_some() {
        let hosts: Vec<String> = (0..20_000).map(|nr| format!("node-{nr}.example.org")).collect();
        let chosen = |policy: &str, bp| -> Vec<&String> {
            hosts.iter().filter(|host| is_in_share(host, policy, bp)).collect()
        };
        assert!(chosen("p", 0).is_empty());
        assert_eq!(chosen("p", 10_000).len(), hosts.len());
        let few = chosen("p", 500);
        // 1000 are expected, with a standard deviation of 31.
        assert!((850..1150).contains(&few.len()), "{}", few.len());
        let more = chosen("p", 2000);
        assert!(few.iter().all(|host| more.contains(host)));
        let other = chosen("q", 500);
        let both = few.iter().filter(|host| other.contains(host)).count();
        assert!(both < 120, "{both} of {} for both", few.len());
    }
}

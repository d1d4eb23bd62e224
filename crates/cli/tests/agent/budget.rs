//! All contexts together get no more CPU time than the agent was allowed.

use crate::world::{World, sleeper, watch};

#[test]
fn contexts_share_the_budget_of_the_agent() {
    let targets = [sleeper(), sleeper()];
    let [one, two] = [&targets[0], &targets[1]].map(|target| watch(target.0.id()));
    let mut world = World::new(&[("a", &one), ("b", &two)]).arg("--budget").arg("0.4%");
    world.start();
    // Each asks for the whole default, which is more than half of what there is.
    let budgets = |world: &World| -> Vec<u64> {
        let of = |name| world.policy(name)["contexts"][0]["budget_bp"].as_u64().unwrap_or(0);
        vec![of("a"), of("b")]
    };
    world.until("they run", |world| budgets(world).iter().all(|bp| *bp > 0));
    if world.policy("a")["contexts"][0]["ops"] != "pagewalk" {
        eprintln!("skipped: only page by page there is a budget");
        return;
    }
    world.until("they share", |world| {
        let budgets = budgets(world);
        budgets.iter().sum::<u64>() <= 40 && budgets.iter().all(|bp| *bp >= 5)
    });
    // Who stops leaves its share to the other.
    assert_eq!(world.ctl("stop b").code, Some(0));
    world.until("the other has more", |world| budgets(world)[0] > 20);
}

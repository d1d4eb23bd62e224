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

#[test]
fn an_agent_that_is_short_of_memory_gets_thrifty_and_says_so() {
    let targets = [sleeper(), sleeper()];
    let [one, two] = [&targets[0], &targets[1]].map(|target| watch(target.0.id()));
    // Far less than any agent needs, so it goes all the way.
    let mut world = World::new(&[("a", &one), ("b", &two)]).arg("--memory").arg("1M");
    world.start();
    let said = |world: &World| world.ctl("status").out;
    world.until("it says so", |world| said(world).contains("memory is short"));
    assert!(said(&world).contains("at most 1.00 MiB"), "{}", said(&world));
    world.until("the most thrifty", |world| world.log().contains("1/8 of the regions"));
    world.until("a policy waits", |world| {
        ["a", "b"].iter().any(|name| {
            let policy = world.policy(name);
            let why = policy["why"].as_str().unwrap_or_default().to_owned();
            policy["state"] == "waiting" && why.contains("short of memory")
        })
    });
    // The agent itself goes on, and ends as it should.
    assert_eq!(world.stop(), Some(0));
}

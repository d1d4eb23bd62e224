//! Policies with one error each have to be refused, with the right message at the right place.

use isotherm_agent::policy::parse;

/// Checks that a text is refused for one reason, said in these words at this place.
fn refused(text: &str, line: usize, column: usize, what: &str) {
    let wrong = match parse(text, "p.toml") {
        Ok(policy) => panic!("accepted: {text}\n{policy:?}"),
        Err(wrong) => wrong,
    };
    let [error] = wrong.errors.as_slice() else { panic!("{text}\nnot one error:\n{wrong}") };
    assert!(error.what.contains(what), "{text}\nwanted: {what}\n{wrong}");
    assert_eq!(wrong.line_and_column(error.span.start), (line, column), "{text}\n{wrong}");
}

#[test]
fn not_a_policy() {
    refused("", 1, 1, "a policy without `context`");
    refused("context = 5", 1, 11, "must be an array of tables");
    refused("context = []", 1, 1, "a policy without a context");
    refused("[[context]]\nname = \"a", 2, 10, "");
    refused("[[context]]\nname = \"a\"\nname = \"b\"", 3, 1, "duplicate key");
    refused("[[context]]\n[[contexts]]", 2, 3, "unknown key `contexts`");
}

#[test]
fn contexts() {
    let cases = [
        ("name = ''", 8, "a name that is empty"),
        ("name = 5", 8, "must be a string"),
        ("targets = [{ pid = 0 }]", 20, "pid 0"),
        ("targets = [{ pid = -5 }]", 20, "does not fit"),
        ("targets = [{ pid = 4294967295 }]", 20, "no pid is so large"),
        ("targets = [{ pid = 1, name = 'x' }]", 12, "one thing"),
        ("targets = [{}]", 12, "one thing"),
        ("targets = [{ cgroup = 'app' }]", 23, "does not begin with /"),
        ("targets = [{ cgroup = '/a/../b' }]", 23, "not the path of a cgroup"),
        ("targets = [{ paddr = 'node' }]", 22, "no physical memory"),
        ("targets = [{ paddr = '6G-4G' }]", 22, "does not begin before it ends"),
        ("targets = [{ paddr = 'all' }, { pid = 1 }]", 11, "beside another target"),
        ("targets = 4711", 11, "must be an array"),
        ("targets = [{ command = 'x' }]", 14, "unknown key `command`"),
        ("children = 'yes'", 12, "must be true or false"),
        ("ops = 'pagewlk'", 7, "unknown operations set"),
        ("ops = 'written'", 7, "not available"),
        ("method = 'first'", 10, "unknown method"),
        ("clears = -1", 10, "does not fit"),
        ("budget = '0%'", 10, "a budget of 0"),
        ("budget = 1", 10, "must be a string"),
        ("intervals = { sample = 5000 }", 24, "must be a string such as \"5ms\""),
        ("intervals = { sample = '5000' }", 24, "has no unit"),
        ("intervals = { sample = '0' }", 24, "`sample` is 0"),
        ("intervals = { update = '1 fortnight' }", 24, "unknown unit"),
        ("intervals = { sample = '1s' }", 13, "longer than the aggregation"),
        ("intervals = { goal = {} }", 22, "without `access`"),
        ("intervals = { goal = { access = '0%' } }", 33, "`access` is 0"),
        ("intervals = { goal = { access = '101%' } }", 33, "more than 100%"),
        ("intervals = { goal = { access = '4%', min_sample = '1s' } }", 13, "outside its bounds"),
        ("regions = { min = 2 }", 11, "3 is the least"),
        ("regions = { min = 20, max = 10 }", 11, "larger than max"),
        ("regions = { min_size = '5K' }", 11, "power of two"),
        ("regions = { min_size = '1K' }", 24, "smaller than a page"),
    ];
    for (line, column, what) in cases {
        refused(&format!("[[context]]\n{line}"), 2, column, what);
    }
    refused("[[context]]\nname = 'a'\n[[context]]\nname = 'a'", 4, 8, "a second context `a`");
    let twice = "[[context]]\ntargets = [{ pid = 7 }]\n[[context]]\ntargets = [{ pid = 7 }]";
    refused(twice, 4, 12, "a second target `pid 7`");
}

#[test]
fn schemes() {
    let cases = [
        ("size = '2M..1M'", 8, "upside down"),
        ("size = '2M'", 8, "one value"),
        ("size = { min = '2M', most = '4M' }", 22, "unknown key `most`"),
        ("size = { min = true }", 16, "must be a whole number"),
        ("frequency = '50%..5%'", 13, "upside down"),
        ("frequency = '5..10'", 13, "has no unit"),
        ("frequency = '5%..10 samples'", 13, "count different things"),
        ("frequency = '200%..'", 13, "too large"),
        ("frequency = '0.001%..'", 13, "finer than a basis point"),
        ("age = '10s..5s'", 7, "upside down"),
        ("age = '10..20'", 7, "has no unit"),
        ("age = '10s..20 windows'", 7, "count different things"),
        ("age = '1.5 windows..'", 7, "finer than one"),
        ("apply_interval = 1", 18, "must be a string"),
        ("quota = 'much'", 9, "a quota is a table"),
        ("quota = { size = '0' }", 18, "a quota of 0 bytes"),
        ("quota = { size = 0 }", 18, "a quota of 0 bytes"),
        ("quota = { size = '1K' }", 18, "less than one region"),
        ("quota = { time = '0' }", 18, "a quota of no time"),
        ("quota = { time = '2s' }", 18, "more time than its window"),
        ("quota = { time = '100us' }", 18, "whole number of ms"),
        ("quota = { weights = { freq = 1 } }", 23, "unknown key `freq`"),
        ("quota = { weights = { age = -1 } }", 29, "does not fit"),
        ("quota = { tuner = 'consistent' }", 19, "unknown tuner"),
        ("quota = { fail_charge = '1/0' }", 25, "divided by 0"),
        ("quota = { fail_charge = 'half' }", 25, "not a fraction"),
        ("quota = { goals = [{ metric = 'some_psi', target = '1ms' }] }", 31, "unknown metric"),
        ("quota = { goals = [{ metric = 'some_mem_psi_us' }] }", 20, "a goal without `target`"),
        ("quota = { goals = [{ target = '1ms' }] }", 20, "a goal without `metric`"),
        ("quota = { goals = [{ metric = 'some_mem_psi_us', target = '0' }] }", 59, "a goal of 0"),
        ("quota = { goals = [{ metric = 'some_mem_psi_us', target = '5%' }] }", 59, "unknown unit"),
        ("quota = { goals = [{ metric = 'some_mem_psi_us', target = '2s' }] }", 59, "be reached"),
        ("quota = { goals = [{ metric = 'active_mem_bp', target = '101%' }] }", 57, "than 100%"),
        ("quota = { goals = [{ metric = 'free_mem_rate', target = '0.15%' }] }", 57, "a permil"),
        (
            "quota = { goals = [{ metric = 'node_mem_free_bp', target = '5%' }] }",
            31,
            "without `node`",
        ),
        (
            "quota = { goals = [{ metric = 'active_mem_bp', node = 0, target = '5%' }] }",
            55,
            "has no `node`",
        ),
        (
            "quota = { goals = [{ metric = 'node_mem_free_bp', node = 1024, target = '5%' }] }",
            58,
            "no node has so large a number",
        ),
        (
            "quota = { goals = [{ metric = 'cgroup_some_mem_psi_us', target = '1ms' }] }",
            31,
            "without `cgroup`",
        ),
        (
            "quota = { goals = [{ metric = 'node_eligible_mem_bp', node = 0, target = '5%' }] }",
            31,
            "cannot be measured",
        ),
        (
            "quota = { goals = [{ metric = 'refault_bp', target = '1%', current = 5 }] }",
            70,
            "`user_input` only",
        ),
        ("brake = 'on'", 9, "a brake is a table"),
        ("brake = { refaults = 2 }", 22, "must be a string"),
        ("watermarks = { high = '50%', mid = '40%' }", 14, "watermarks without `low`"),
        ("watermarks = { high = '20%', mid = '40%', low = '10%' }", 14, "out of order"),
        ("watermarks = { high = '50%', mid = '40%', low = '40%' }", 14, "never let"),
        (
            "watermarks = { metric = 'free', high = '50%', mid = '40%', low = '20%' }",
            25,
            "unknown watermark metric",
        ),
        (
            "watermarks = { interval = '0', high = '50%', mid = '40%', low = '20%' }",
            27,
            "`interval` is 0",
        ),
        ("filters = 'reject anon'", 11, "must be an array"),
        ("filters = ['anon']", 12, "begins with `anon`"),
        ("filters = ['reject']", 12, "a filter without a kind"),
        ("filters = ['reject not']", 12, "a filter without a kind"),
        ("filters = ['reject anon memory']", 12, "nothing more"),
        ("filters = ['allow addr']", 12, "without what it is about"),
        ("filters = ['allow addr 0x2000..0x1000']", 12, "upside down"),
        ("filters = ['allow addr 0xzz..5']", 12, "not a range of addresses"),
        ("filters = ['allow target x']", 12, "needs a number"),
        ("filters = ['allow memcg app']", 12, "does not begin with /"),
        ("filters = ['allow hugepage_size 4M..2M']", 12, "upside down"),
        ("filters = ['allow hugepage_size ..']", 12, "not a number with a unit"),
        ("filters = ['reject unmapped']", 12, "says nothing here"),
        ("filters = ['reject unmapped pages']", 12, "nothing more"),
        ("evidence = 'on'", 12, "evidence is a table"),
        ("evidence = {}", 12, "evidence without `confirm`"),
        ("evidence = { confirm = '0s' }", 24, "`confirm` is 0"),
        ("min_touched = '50%'", 15, "`collapse` only"),
        ("prove = 'auto'", 9, "`collapse` only"),
        ("progress = '/run/work'", 12, "without `prove`"),
        ("target_node = 1", 15, "migrate_hot and migrate_cold only"),
        ("refault_window = '0'", 18, "`refault_window` is 0"),
        ("max_snapshots = 1.5", 17, "must be a whole number"),
        ("dryrun = true", 1, "unknown key `dryrun`"),
    ];
    for (line, column, what) in cases {
        let text = format!("[[context]]\n[[context.scheme]]\naction = 'pageout'\n{line}");
        refused(&text, 4, column, what);
    }
}

#[test]
fn actions() {
    let cases = [
        ("action = 'page-out'", 10, "unknown action `page-out`"),
        ("action = 'lru_prio'", 10, "not available"),
        ("action = 'hugepage'", 10, "without `inject`"),
        ("action = 'migrate_cold'\ntarget_node = 9999", 0, "so large a number"),
        ("action = 'migrate_cold'\ndestinations = [{ node = 0, weight = 0 }]", 0, "any weight"),
        ("action = 'migrate_cold'\ndestinations = []", 0, "any weight"),
        ("action = 'migrate_hot'\ntarget_node = 0\ndestinations = [{ node = 1 }]", 0, "both"),
        ("action = 'stat'\nbrake = { refaults = '2%' }", 0, "`stat` has no brake"),
    ];
    for (text, column, what) in cases {
        let text = format!("[[context]]\n[[context.scheme]]\n{text}");
        if column == 0 {
            let wrong = parse(&text, "p.toml").expect_err(&text);
            let one = matches!(wrong.errors.as_slice(), [error] if error.what.contains(what));
            assert!(one, "{text}\n{wrong}");
        } else {
            refused(&text, 3, column, what);
        }
    }
    refused("[[context]]\n[[context.scheme]]\nage = '5s..'", 2, 1, "a scheme without `action`");
    let nowhere = "[[context]]\n[[context.scheme]]\naction = 'migrate_hot'";
    refused(nowhere, 2, 1, "without a node to go to");
    let scheme = "[[context.scheme]]\naction = 'stat'\n";
    refused(&format!("[[context]]\n{scheme}{scheme}"), 4, 1, "a second scheme `stat`");
}

/// An agent never acts on a policy that it does not understand as a whole: a key that this version
/// does not know refuses the policy, at whatever level it is.
#[test]
fn a_key_that_is_not_known_refuses_the_policy_at_every_level() {
    let scheme =
        |line: &str| format!("[[context]]\n[[context.scheme]]\naction = 'pageout'\n{line}");
    let context = |line: &str| format!("[[context]]\n{line}");
    let goal = "metric = 'some_mem_psi_us', target = '1ms'";
    let texts = [
        "newer = 1\n[[context]]".to_owned(),
        "[newer]\nx = 1\n[[context]]".to_owned(),
        "[[context]]\n[tune]\nnewer = 1".to_owned(),
        "[[context]]\n[rollout]\nnewer = 1".to_owned(),
        "[[context]]\n[rollout]\nmax_pressure = '5%'\nnewer = '5%'".to_owned(),
        context("newer = 1"),
        context("targets = [{ newer = 1 }]"),
        context("targets = [{ pid = 1, newer = 1 }]"),
        context("intervals = { newer = 1 }"),
        context("intervals = { goal = { access = '4%', newer = 1 } }"),
        context("regions = { newer = 1 }"),
        scheme("newer = 1"),
        scheme("size = { newer = 1 }"),
        scheme("frequency = { newer = 1 }"),
        scheme("age = { newer = 1 }"),
        scheme("quota = { newer = 1 }"),
        scheme("quota = { weights = { newer = 1 } }"),
        scheme(&format!("quota = {{ goals = [{{ {goal}, newer = 1 }}] }}")),
        scheme("brake = { newer = 1 }"),
        scheme("watermarks = { high = '50%', mid = '40%', low = '20%', newer = 1 }"),
        scheme("evidence = { confirm = '1s', newer = 1 }"),
        scheme("memory_reclaim = { from = 'own', newer = 1 }"),
        "[[context]]\n[[context.scheme]]\naction = 'migrate_cold'\n\
         destinations = [{ node = 0, newer = 1 }]"
            .to_owned(),
    ];
    for text in texts {
        let wrong = parse(&text, "p.toml").expect_err(&text);
        let named = wrong.errors.iter().any(|error| error.what.contains("unknown key `newer`"));
        assert!(named, "{text}\n{wrong}");
    }
}

#[test]
fn rollout() {
    let cases = [
        ("share = '101%'", 9, "more than 100%"),
        ("share = 5", 9, "must be a string such as \"5%\""),
        ("share = '0.001%'", 9, "finer than a basis point"),
        ("max_pressure = 'low'", 16, "max_pressure"),
        ("max_refaults = -1", 16, "must be a string"),
        ("max_errors = '3'", 14, "must be a whole number"),
        ("max_errors = -3", 14, "does not fit"),
    ];
    for (line, column, what) in cases {
        refused(&format!("[[context]]\n[rollout]\n{line}"), 3, column, what);
    }
    refused("[[context]]\n[[rollout]]", 2, 1, "must be a table");
}

//! `--version`: which program this is. `-V` prints the first line alone.

use std::sync::LazyLock;

/// Number and origin of this build, in lines.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| {
    let features = match env!("ISOTHERM_BUILT_FEATURES") {
        "" => "none to choose",
        features => features,
    };
    let sets = isotherm::raw::ops::support::SetName::ALL;
    let sets = sets.into_iter().filter(|set| set.is_built()).map(|set| set.name());
    let lines = [
        env!("CARGO_PKG_VERSION").to_owned(),
        format!("commit    {}", env!("ISOTHERM_BUILT_COMMIT")),
        format!("features  {features}"),
        format!("sets      {}", sets.collect::<Vec<_>>().join(" ")),
        format!("target    {}", env!("ISOTHERM_BUILT_TARGET")),
        format!("profile   {}", env!("ISOTHERM_BUILT_PROFILE")),
    ];
    lines.join("\n")
});

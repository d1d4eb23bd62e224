//! The parameters of DAMON's modules (`/sys/module/damon_NAME/parameters`, R§6).

use isotherm_damon::modules::{Module, Parameter, Role, Unit};

use super::layout::ulong;
use super::{Ino, Tree, Value};

/// Makes the directories of all modules.
pub(super) fn all(tree: &mut Tree, modules: Ino) {
    for module in Module::ALL {
        let dir = tree.dir(modules, &format!("damon_{}", module.name()));
        let parameters = tree.dir(dir, "parameters");
        for parameter in module.parameters() {
            tree.file(parameters, parameter.name, value(module, parameter));
        }
    }
}

/// The value of a parameter before anybody has set it.
fn value(module: Module, parameter: &Parameter) -> Value {
    let number = || parameter.default.parse().unwrap_or(0);
    match (parameter.role, parameter.name) {
        (Role::Statistic, name) => Value::Said(module, name),
        (Role::Switch, "enabled") => Value::Enabled(module),
        (Role::Switch, _) => Value::CommitInputs(module),
        (Role::Tunable, "addr_unit") => Value::AddrUnit(number()),
        (Role::Tunable, _) if parameter.unit == Unit::Flag => Value::Flag(parameter.default == "Y"),
        (Role::Tunable, _) => ulong(number()),
    }
}

//! What every varlink service answers about itself: the interface `org.varlink.service`.

use serde_json::json;

use crate::message::{Call, Reply, object};
use crate::{INTERFACE, NAME};

/// The interface that every varlink service has.
pub const SERVICE: &str = "org.varlink.service";

const SERVICE_DESCRIPTION: &str = "\
# What every varlink service answers about itself.
interface org.varlink.service

# Who made the service, and the names of its interfaces.
method GetInfo() -> (
  vendor: string,
  product: string,
  version: string,
  url: string,
  interfaces: []string
)

# The description of an interface.
method GetInterfaceDescription(interface: string) -> (description: string)

error InterfaceNotFound (interface: string)

error MethodNotFound (method: string)

error MethodNotImplemented (method: string)

error InvalidParameter (parameter: string)
";

/// The answer to a call of `org.varlink.service`, or the error for a method that nobody has; none
/// if the call is for the agent.
#[must_use]
pub fn answer(call: &Call, version: &str) -> Option<Reply> {
    match call.split() {
        (NAME, _) => None,
        (SERVICE, "GetInfo") => Some(Reply {
            parameters: object(&json!({
                "vendor": "The Isotherm authors",
                "product": "Isotherm agent",
                "version": version,
                "url": "",
                "interfaces": [SERVICE, NAME],
            })),
            ..Reply::default()
        }),
        (SERVICE, "GetInterfaceDescription") => {
            let wanted = call.parameters.get("interface").and_then(|v| v.as_str());
            Some(match wanted {
                Some(NAME) => Reply::with(&json!({ "description": INTERFACE })),
                Some(SERVICE) => Reply::with(&json!({ "description": SERVICE_DESCRIPTION })),
                Some(other) => failed("InterfaceNotFound", "interface", other),
                None => failed("InvalidParameter", "parameter", "interface"),
            })
        }
        (SERVICE, method) => Some(failed("MethodNotFound", "method", method)),
        (other, _) => Some(failed("InterfaceNotFound", "interface", other)),
    }
}

/// The error for a method that the interface does not have.
#[must_use]
pub fn no_such_method(method: &str) -> Reply {
    failed("MethodNotFound", "method", method)
}

/// The error for arguments that do not fit.
#[must_use]
pub fn invalid_parameter(why: &str) -> Reply {
    failed("InvalidParameter", "parameter", why)
}

fn failed(error: &str, key: &str, value: &str) -> Reply {
    Reply {
        parameters: object(&json!({ key: value })),
        continues: false,
        error: Some(format!("{SERVICE}.{error}")),
    }
}

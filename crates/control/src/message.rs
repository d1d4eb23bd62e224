//! Calls and replies, as varlink has them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A call of a method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The method's full name: `io.isotherm.Control.Status`.
    pub method: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// Whether several replies are wanted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more: bool,
    /// Whether no reply is wanted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub oneway: bool,
}

/// A reply to a call.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reply {
    /// What the method returns, or what the error says.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// Whether another reply to the same call follows.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continues: bool,
    /// The full name of the error, if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Call {
    /// Reads a call.
    ///
    /// # Errors
    ///
    /// If the message is not a call; the text says why.
    pub fn parse(message: &[u8]) -> Result<Self, String> {
        // A sequence of the fields would be taken as well.
        if message.trim_ascii_start().first() != Some(&b'{') {
            return Err("it is no JSON object".to_owned());
        }
        serde_json::from_slice(message).map_err(|e| e.to_string())
    }

    /// The name of the interface, and that of the method in it.
    #[must_use]
    pub fn split(&self) -> (&str, &str) {
        self.method.rsplit_once('.').unwrap_or(("", &self.method))
    }

    /// The arguments as a type.
    ///
    /// # Errors
    ///
    /// If they do not fit; the text says which one and why.
    pub fn arguments<T: for<'a> Deserialize<'a>>(self) -> Result<T, String> {
        serde_json::from_value(Value::Object(self.parameters)).map_err(|e| e.to_string())
    }
}

impl Reply {
    /// A reply with this value, which has to become a JSON object.
    #[must_use]
    pub fn with(value: &impl Serialize) -> Self {
        Self { parameters: object(value), ..Self::default() }
    }

    /// The reply as a message.
    #[must_use]
    pub fn text(&self) -> String {
        // Maps with keys that are text, and no types that can fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The value as a JSON object; empty if it is none.
#[must_use]
pub fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_others_write_them() {
        let call = Call::parse(br#"{"method":"a.b.C","more":true,"parameters":{"x":1}}"#).unwrap();
        assert_eq!(call.split(), ("a.b", "C"));
        assert!(call.more && !call.oneway);
        // A key that a later version of varlink has.
        assert!(Call::parse(br#"{"method":"a.b.C","upgrade":false}"#).is_ok());
        assert_eq!(Call::parse(br#"{"method":"C"}"#).unwrap().split(), ("", "C"));
        for bad in [
            "",
            "{",
            "[]",
            r#"["a.b.C"]"#,
            "1",
            "null",
            r#"{"method":3}"#,
            r#"{"method":"a","more":2}"#,
        ] {
            assert!(Call::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
        let deep = format!(r#"{{"method":"a","parameters":{{"x":{open}{close}}}}}"#);
        let why = Call::parse(deep.as_bytes()).expect_err("too deep");
        assert!(why.contains("recursion"), "{why}");
    }

    #[test]
    fn a_reply_has_only_what_it_needs() {
        assert_eq!(Reply::default().text(), r#"{"parameters":{}}"#);
    }
}

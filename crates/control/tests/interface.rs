//! The interface's description and the Rust types say the same. The description is read by the
//! parser of the varlink project.

use std::collections::BTreeSet;

use isotherm_control::error::{Kind, Refusal};
use isotherm_control::message::{Call, Reply};
use isotherm_control::types::{self, State};
use isotherm_control::{INTERFACE, NAME, service};
use serde::Serialize;
use serde_json::{Value, json};
use varlink_parser::{IDL, VStruct, VStructOrEnum, VType, VTypeExt};

fn interface() -> IDL<'static> {
    IDL::try_from(INTERFACE).unwrap_or_else(|e| panic!("{e}"))
}

/// Checks that a value has a type of the interface: no field is missing, and none is too many.
fn has_type(idl: &IDL<'_>, value: &Value, wanted: &VTypeExt<'_>, at: &str) {
    match wanted {
        VTypeExt::Option(inner) => {
            if !value.is_null() {
                has_type(idl, value, inner, at);
            }
        }
        VTypeExt::Array(inner) => {
            let items = value.as_array().unwrap_or_else(|| panic!("{at}: no array: {value}"));
            assert!(!items.is_empty(), "{at}: the sample has to show an element");
            items.iter().for_each(|item| has_type(idl, item, inner, at));
        }
        VTypeExt::Dict(inner) => {
            let map = value.as_object().unwrap_or_else(|| panic!("{at}: no map: {value}"));
            map.values().for_each(|item| has_type(idl, item, inner, at));
        }
        VTypeExt::Plain(plain) => {
            let fits = match plain {
                VType::Bool => value.is_boolean(),
                VType::Int => value.is_u64() || value.is_i64(),
                VType::Float => value.is_number(),
                VType::String => value.is_string(),
                VType::Object => value.is_object(),
                VType::Struct(fields) => return has_fields(idl, value, fields, at),
                VType::Enum(names) => value.as_str().is_some_and(|v| names.elts.contains(&v)),
                VType::Typename(name) => match &idl.typedefs[name].elt {
                    VStructOrEnum::VStruct(fields) => return has_fields(idl, value, fields, name),
                    VStructOrEnum::VEnum(names) => {
                        value.as_str().is_some_and(|v| names.elts.contains(&v))
                    }
                },
            };
            assert!(fits, "{at}: {value}");
        }
    }
}

fn has_fields(idl: &IDL<'_>, value: &Value, fields: &VStruct<'_>, at: &str) {
    let map = value.as_object().unwrap_or_else(|| panic!("{at}: no object: {value}"));
    let known: BTreeSet<&str> = fields.elts.iter().map(|field| field.name).collect();
    let has: BTreeSet<&str> = map.keys().map(String::as_str).collect();
    assert_eq!(has, known, "{at}");
    for field in &fields.elts {
        has_type(idl, &map[field.name], &field.vtype, &format!("{at}.{}", field.name));
    }
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("plain data")
}

fn policy() -> types::Policy {
    types::Policy {
        file: Some("a".into()),
        why: Some("b".into()),
        retry_ms: Some(1),
        contexts: vec![types::Context {
            blocked: Some("c".into()),
            state: Some(State::Running),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn snapshot() -> types::Snapshot {
    let target = types::Target {
        touched: vec![types::Touched::default()],
        regions: vec![types::Region { lo: 0.5, ..Default::default() }],
        ..Default::default()
    };
    types::Snapshot { targets: vec![target], ..Default::default() }
}

fn account() -> types::Account {
    types::Account { blocked: Some("x".into()), ..Default::default() }
}

fn fleet() -> types::Fleet {
    types::Fleet {
        state: Some(types::FleetState::Stuck),
        state_ns: Some(1),
        written_ns: Some(2),
        failures: Some(3),
        panics: Some(4),
        ..Default::default()
    }
}

fn cgroup() -> types::Cgroup {
    types::Cgroup {
        touched: vec![types::Touched::default()],
        idle: vec![types::Idle::default()],
        watched_ns: Some(1),
        ..Default::default()
    }
}

#[test]
fn every_reply_is_as_the_interface_says() {
    let idl = interface();
    assert_eq!(idl.name, NAME);
    let policies = vec![policy()];
    let history = types::History { trouble: Some("t".into()), ..Default::default() };
    let event = types::Event { data: json!({ "pid": 1 }), ..Default::default() };
    let nothing = value(&types::Nothing {});
    let replies = [
        (
            "Status",
            value(&types::Status {
                history: Some(history),
                fleet: Some(fleet()),
                policies,
                ..Default::default()
            }),
        ),
        ("List", value(&types::Policies { policies: vec![policy()] })),
        ("Start", nothing.clone()),
        ("Stop", nothing.clone()),
        ("Pause", nothing.clone()),
        ("Resume", nothing.clone()),
        ("Remove", nothing),
        ("Commit", value(&types::Committed::default())),
        ("Show", value(&types::Text { file: Some("f".into()), ..Default::default() })),
        ("Snapshot", value(&types::Snapshots { snapshots: vec![snapshot()] })),
        ("Account", value(&types::Accounts { schemes: vec![account()] })),
        ("Cgroups", value(&types::Cgroups { cgroups: vec![cgroup()] })),
        (
            "Follow",
            value(&types::Followed {
                snapshot: Some(snapshot()),
                event: Some(event),
                accounts: Some(vec![account()]),
                lost: Some(3),
            }),
        ),
    ];
    let told: BTreeSet<&str> = replies.iter().map(|(method, _)| *method).collect();
    assert_eq!(told, idl.methods.keys().copied().collect(), "a reply of each method is checked");
    for (method, reply) in replies {
        has_fields(&idl, &reply, &idl.methods[method].output, method);
    }
}

#[test]
fn every_argument_is_as_the_interface_says() {
    let idl = interface();
    let text = || Some("x".to_owned());
    let of_policy = value(&types::OfPolicy { policy: "x".into() });
    let of_context = value(&types::OfContext { policy: "x".into(), context: text() });
    let arguments = [
        ("Status", json!({})),
        ("List", json!({})),
        ("Start", of_context.clone()),
        ("Stop", of_context.clone()),
        ("Pause", of_context.clone()),
        ("Resume", of_context),
        ("Remove", of_policy.clone()),
        ("Show", of_policy),
        (
            "Commit",
            value(&types::Commit { policy: "x".into(), text: "y".into(), check: Some(true) }),
        ),
        ("Snapshot", value(&types::Which { policy: text(), context: text(), pid: Some(1) })),
        ("Account", value(&types::OfAny { policy: text() })),
        ("Cgroups", value(&types::WhichCgroups { policy: text(), pattern: text() })),
        (
            "Follow",
            value(&types::Follow {
                snapshots: Some(true),
                events: Some(true),
                accounts: Some(true),
                policy: text(),
                every_ms: Some(100),
            }),
        ),
    ];
    assert_eq!(arguments.len(), idl.methods.len());
    for (method, arguments) in arguments {
        has_fields(&idl, &arguments, &idl.methods[method].input, method);
    }
}

#[test]
fn every_state_and_every_error_is_described() {
    let idl = interface();
    let VStructOrEnum::VEnum(names) = &idl.typedefs["State"].elt else { panic!("no enum") };
    let states = [
        State::Starting,
        State::Running,
        State::Paused,
        State::Stopped,
        State::Waiting,
        State::Invalid,
    ];
    assert_eq!(states.map(State::name).as_slice(), names.elts);
    for state in states {
        assert_eq!(value(&state), state.name());
    }
    for kind in [
        Kind::NotAllowed,
        Kind::NoSuchPolicy,
        Kind::Refused,
        Kind::WrongState,
        Kind::Busy,
        Kind::BadMessage,
        Kind::Failed,
    ] {
        let reply = Refusal::new(kind, "what", "why", "hint").reply();
        let name = reply.error.unwrap();
        let name = name.strip_prefix("io.isotherm.Control.").unwrap();
        has_fields(&idl, &Value::Object(reply.parameters), &idl.errors[name].parm, name);
    }
}

#[test]
fn the_service_describes_itself() {
    let ask = |method: &str, parameters: Value| {
        let call = json!({ "method": method, "parameters": parameters });
        service::answer(&Call::parse(call.to_string().as_bytes()).unwrap(), "1.2.3").unwrap()
    };
    let info = ask("org.varlink.service.GetInfo", json!({}));
    assert_eq!(info.parameters["interfaces"], json!(["org.varlink.service", NAME]));
    for name in ["org.varlink.service", NAME] {
        let reply =
            ask("org.varlink.service.GetInterfaceDescription", json!({ "interface": name }));
        let text = reply.parameters["description"].as_str().unwrap();
        let idl = IDL::try_from(text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(idl.name, name);
        if name == "org.varlink.service" {
            let info = Value::Object(info.parameters.clone());
            has_fields(&idl, &info, &idl.methods["GetInfo"].output, "GetInfo");
        }
    }
    for (method, parameters, error) in [
        ("org.varlink.service.GetInterfaceDescription", json!({}), "InvalidParameter"),
        (
            "org.varlink.service.GetInterfaceDescription",
            json!({ "interface": "a.b" }),
            "InterfaceNotFound",
        ),
        ("org.varlink.service.Nothing", json!({}), "MethodNotFound"),
        ("a.b.C", json!({}), "InterfaceNotFound"),
        ("C", json!({}), "InterfaceNotFound"),
    ] {
        let Reply { error: found, .. } = ask(method, parameters);
        assert_eq!(found, Some(format!("org.varlink.service.{error}")), "{method}");
    }
}

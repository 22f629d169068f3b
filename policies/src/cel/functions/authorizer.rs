//! `authorizer…check(verb)`: the question is put together here and answered by whoever was
//! injected.

use crate::cel::evaluate::Evaluated;
use crate::cel::{Activation, Answer, Budget, EvalError, Key, Question, Value};
use std::sync::Arc;

/// What a check costs; the API server counts the same, so that three are too many.
const CHECK_STEPS: u64 = 350_000;

pub(super) fn ask(
    name: &str,
    question: &Question,
    rest: &[Value],
    activation: &Activation,
    budget: &mut Budget,
) -> Evaluated {
    let mut next = question.clone();
    match (name, rest) {
        ("path", [Value::String(path)]) if question.is_open() => {
            if path.is_empty() {
                return Err(EvalError::BadValue("path must not be empty".to_owned()));
            }
            next.path = Some(path.to_string());
        }
        ("group", [Value::String(group)]) if question.is_open() => {
            next.group = Some(group.to_string());
        }
        ("serviceAccount", [Value::String(namespace), Value::String(name)])
            if question.is_open() =>
        {
            next.service_account = Some((namespace.to_string(), name.to_string()));
        }
        ("resource", [Value::String(resource)])
            if question.group.is_some() && question.resource.is_none() =>
        {
            next.resource = Some(resource.to_string());
        }
        ("subresource", [Value::String(text)]) if question.resource.is_some() => {
            next.subresource = text.to_string();
        }
        ("namespace", [Value::String(text)]) if question.resource.is_some() => {
            next.namespace = text.to_string();
        }
        ("name", [Value::String(text)]) if question.resource.is_some() => {
            next.name = text.to_string();
        }
        ("fieldSelector", [Value::String(text)]) if question.resource.is_some() => {
            pay_for_selector(text, budget)?;
            next.field_selector = text.to_string();
        }
        ("labelSelector", [Value::String(text)]) if question.resource.is_some() => {
            pay_for_selector(text, budget)?;
            next.label_selector = text.to_string();
        }
        ("check", [Value::String(verb)])
            if question.resource.is_some() || question.path.is_some() =>
        {
            budget.charge(CHECK_STEPS)?;
            next.verb = verb.to_string();
            return activation
                .answer(&next)
                .map(|answer| Value::Decision(Arc::new(answer)));
        }
        _ => return Err(EvalError::NoSuchOverload),
    }
    Ok(Value::Authorizer(Arc::new(next)))
}

/// What the API server takes reading a selector to cost: half a requirement a byte, of 50 each.
fn pay_for_selector(text: &str, budget: &mut Budget) -> Result<(), EvalError> {
    budget.charge(10 + (text.len() as u64).saturating_mul(26))
}

impl Question {
    /// How many bytes of text it is.
    pub(in crate::cel) fn weight(&self) -> usize {
        let account = self
            .service_account
            .iter()
            .flat_map(|(space, name)| [space, name]);
        let parts = [&self.path, &self.group, &self.resource]
            .into_iter()
            .flatten();
        let texts = [
            &self.subresource,
            &self.namespace,
            &self.name,
            &self.field_selector,
            &self.label_selector,
            &self.verb,
        ];
        account.chain(parts).chain(texts).map(String::len).sum()
    }

    /// Whether it is not yet said what is asked about.
    fn is_open(&self) -> bool {
        self.path.is_none() && self.group.is_none()
    }
}

/// `authorizer.requestResource`: the question about what the request itself is about.
pub(in crate::cel) fn request_resource(activation: &Activation, question: &Question) -> Evaluated {
    if !question.is_open() {
        return Err(EvalError::NoSuchKey("requestResource".to_owned()));
    }
    let request = activation.named("request").unwrap_or(Value::Null);
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let resource = field(&request, "resource");
    let part = |name: &str| text(resource.and_then(|resource| field(resource, name)));
    Ok(Value::Authorizer(Arc::new(Question {
        group: Some(part("group")),
        resource: Some(part("resource")),
        subresource: text(field(&request, "subResource")),
        namespace: text(field(&request, "namespace")),
        name: text(field(&request, "name")),
        ..question.clone()
    })))
}

fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Map(map) => map.get(&Key::text(name)),
        _ => None,
    }
}

pub(super) fn of_answer(name: &str, answer: &Answer) -> Evaluated {
    Ok(match name {
        "allowed" => Value::Bool(answer.allowed),
        "reason" => Value::text(&answer.reason),
        "errored" => Value::Bool(answer.error.is_some()),
        "error" => Value::text(answer.error.as_deref().unwrap_or("")),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

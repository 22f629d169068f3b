//! What the names of an expression stand for.
//!
//! Invariant: a variable is evaluated at most once per activation, when it is first asked for,
//! and sees only those that were declared before it.

use super::value::Value;
use super::{CompileError, EvalError, Expression};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Why something cannot be bound to a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// JSON that nests too deep.
    #[error("`{0}` nests deeper than 128 levels, which is not taken")]
    TooDeep(&'static str),
}

/// What an expression asks the authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Namespace and name of the service account that is asked about; nobody: the requester.
    pub service_account: Option<(String, String)>,
    /// The path, of a question about one.
    pub path: Option<String>,
    /// The API group of a question about a resource.
    pub group: Option<String>,
    /// The resource.
    pub resource: Option<String>,
    /// The subresource, or nothing.
    pub subresource: String,
    /// The namespace, or nothing.
    pub namespace: String,
    /// The object's name, or nothing.
    pub name: String,
    /// The field selector, or nothing.
    pub field_selector: String,
    /// The label selector, or nothing.
    pub label_selector: String,
    /// The verb.
    pub verb: String,
}

/// What the authorizer answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether it may be done.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong, if anything did.
    pub error: Option<String>,
}

/// Who answers for the authorizer.
pub trait Authorizer {
    /// Answers one question; nothing: it does not know, and then nothing can be said.
    fn answer(&self, question: &Question) -> Option<Answer>;
}

struct Variable {
    name: String,
    expression: Result<Expression, CompileError>,
    value: RefCell<Option<Result<Value, EvalError>>>,
}

/// The request, as expressions see it.
#[derive(Clone)]
pub struct Activation {
    object: Value,
    old_object: Value,
    request: Value,
    namespace_object: Value,
    params: Value,
    variables: Rc<Vec<Variable>>,
    authorizer: Option<Rc<dyn Authorizer>>,
}

impl fmt::Debug for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activation").finish_non_exhaustive()
    }
}

impl Default for Activation {
    fn default() -> Self {
        Self {
            object: Value::Null,
            old_object: Value::Null,
            request: Value::Null,
            namespace_object: Value::Null,
            params: Value::Null,
            variables: Rc::new(Vec::new()),
            authorizer: None,
        }
    }
}

fn convert(name: &'static str, json: &serde_json::Value) -> Result<Value, InputError> {
    Value::from_json(json).ok_or(InputError::TooDeep(name))
}

impl Activation {
    /// Nothing but nulls, and no authorizer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With the object of the request; null where there is none.
    ///
    /// # Errors
    ///
    /// Where it nests too deep; so of all of these.
    pub fn object(self, json: &serde_json::Value) -> Result<Self, InputError> {
        let object = convert("object", json)?;
        Ok(Self { object, ..self })
    }

    /// With the object as it is stored; null where there is none.
    ///
    /// # Errors
    ///
    /// Where it nests too deep.
    pub fn old_object(self, json: &serde_json::Value) -> Result<Self, InputError> {
        let old_object = convert("oldObject", json)?;
        Ok(Self { old_object, ..self })
    }

    /// With the request.
    ///
    /// # Errors
    ///
    /// Where it nests too deep.
    pub fn request(self, json: &serde_json::Value) -> Result<Self, InputError> {
        let request = convert("request", json)?;
        Ok(Self { request, ..self })
    }

    /// With the namespace's object; null for what is in none, and in match conditions.
    ///
    /// # Errors
    ///
    /// Where it nests too deep.
    pub fn namespace_object(self, json: &serde_json::Value) -> Result<Self, InputError> {
        let namespace_object = convert("namespaceObject", json)?;
        Ok(Self {
            namespace_object,
            ..self
        })
    }

    /// With the parameters of the binding.
    ///
    /// # Errors
    ///
    /// Where they nest too deep.
    pub fn params(self, json: &serde_json::Value) -> Result<Self, InputError> {
        let params = convert("params", json)?;
        Ok(Self { params, ..self })
    }

    /// With variables, in the order of their declaration. One that does not compile fails when it
    /// is asked for.
    #[must_use]
    pub fn variables(
        self,
        variables: impl IntoIterator<Item = (String, Result<Expression, CompileError>)>,
    ) -> Self {
        let variables = variables
            .into_iter()
            .map(|(name, expression)| Variable {
                name,
                expression,
                value: RefCell::new(None),
            })
            .collect();
        Self {
            variables: Rc::new(variables),
            ..self
        }
    }

    /// With somebody who answers for the authorizer.
    #[must_use]
    pub fn authorizer(self, authorizer: Rc<dyn Authorizer>) -> Self {
        Self {
            authorizer: Some(authorizer),
            ..self
        }
    }

    /// What one of the request's names stands for.
    pub(super) fn named(&self, name: &str) -> Option<Value> {
        Some(match name {
            "object" => self.object.clone(),
            "oldObject" => self.old_object.clone(),
            "request" => self.request.clone(),
            "namespaceObject" => self.namespace_object.clone(),
            "params" => self.params.clone(),
            "authorizer" => Value::Authorizer(Arc::default()),
            _ => return None,
        })
    }

    /// The place of a variable among those before `below`.
    pub(super) fn variable(&self, name: &str, below: usize) -> Option<usize> {
        self.variables
            .iter()
            .take(below)
            .position(|variable| variable.name == name)
    }

    pub(super) fn variable_count(&self) -> usize {
        self.variables.len()
    }

    /// A variable's value, by `evaluate` where it is not known yet.
    pub(super) fn variable_value(
        &self,
        at: usize,
        evaluate: impl FnOnce(&Expression) -> Result<Value, EvalError>,
    ) -> Result<Value, EvalError> {
        let Some(variable) = self.variables.get(at) else {
            return Err(EvalError::Failed);
        };
        if let Some(known) = &*variable.value.borrow() {
            return known.clone();
        }
        let value = match &variable.expression {
            Ok(expression) => evaluate(expression),
            Err(error) => Err(EvalError::BadValue(format!(
                "compilation failed: {}",
                error.message
            ))),
        }
        .map_err(|error| EvalError::Variable {
            name: variable.name.clone(),
            error: Box::new(error),
        });
        *variable.value.borrow_mut() = Some(value.clone());
        value
    }

    pub(super) fn answer(&self, question: &Question) -> Result<Answer, EvalError> {
        let authorizer = self.authorizer.as_ref().ok_or(EvalError::NoAuthorizer)?;
        authorizer.answer(question).ok_or(EvalError::NoAuthorizer)
    }
}

//! Walks a tree.
//!
//! Invariant: each node costs a step before it is looked at, and an error that is final passes
//! through everything.

use super::ast::{Binary, Kind, Literal, Node, Unary};
use super::error::short;
use super::{Activation, Budget, EvalError, Key, KubernetesVersion, Map, Value};
use super::{check, functions, operators};

mod macros;

/// How deep a value may nest.
const MAX_VALUE_DEPTH: u16 = 400;

/// What an evaluation gives.
pub(super) type Evaluated = Result<Value, EvalError>;

/// Evaluates a tree, with all variables in sight.
pub(super) fn evaluate(
    node: &Node,
    version: KubernetesVersion,
    activation: &Activation,
    budget: &mut Budget,
) -> Evaluated {
    let in_sight = activation.variable_count();
    within(node, version, activation, budget, in_sight)
}

fn within(
    node: &Node,
    version: KubernetesVersion,
    activation: &Activation,
    budget: &mut Budget,
    variables: usize,
) -> Evaluated {
    Evaluator {
        activation,
        budget,
        version,
        scope: Vec::new(),
        variables,
        patterns: functions::Patterns::default(),
    }
    .node(node)
}

/// One evaluation.
pub(super) struct Evaluator<'a> {
    pub(super) activation: &'a Activation,
    pub(super) budget: &'a mut Budget,
    pub(super) version: KubernetesVersion,
    /// What the macros around have bound, the innermost last.
    scope: Vec<(&'a str, Value)>,
    /// How many of the variables are in sight.
    variables: usize,
    pub(super) patterns: functions::Patterns,
}

impl<'a> Evaluator<'a> {
    fn node(&mut self, node: &'a Node) -> Evaluated {
        self.budget.enter()?;
        let value = self.kind(node);
        self.budget.leave();
        match value {
            Ok(value) if value.depth() > MAX_VALUE_DEPTH => Err(EvalError::TooDeep),
            other => other,
        }
    }

    fn kind(&mut self, node: &'a Node) -> Evaluated {
        match &node.kind {
            Kind::Literal(value) => self.literal(value),
            Kind::Name(name) => self.name(name),
            Kind::Select {
                operand,
                field,
                optional,
            } => self.select(operand, field, *optional),
            Kind::Has { operand, field } => self.has(operand, field),
            Kind::Index {
                operand,
                index,
                optional,
            } => {
                let operand = self.node(operand)?;
                let index = self.node(index)?;
                self.budget.bytes(index.weight())?;
                qualify(&operand, &index, *optional)
            }
            Kind::Unary { operator, operand } => {
                let operand = self.node(operand)?;
                match operator {
                    Unary::Not => operators::not(&operand),
                    Unary::Negate => operators::negate(&operand),
                }
            }
            Kind::Binary {
                operator,
                left,
                right,
            } => self.binary(*operator, left, right),
            Kind::Conditional { condition, yes, no } => match self.node(condition)? {
                Value::Bool(true) => self.node(yes),
                Value::Bool(false) => self.node(no),
                _ => Err(EvalError::NoSuchOverload),
            },
            Kind::Call {
                function,
                target,
                arguments,
            } => self.call(function, target.as_deref(), arguments),
            Kind::List(elements) => self.list(elements),
            Kind::Map(_) => self.map(node),
            Kind::Macro(inner) => self.macro_(inner),
        }
    }

    fn literal(&mut self, literal: &Literal) -> Evaluated {
        Ok(match literal {
            Literal::Null => Value::Null,
            Literal::Bool(value) => Value::Bool(*value),
            Literal::Int(value) => Value::Int(*value),
            Literal::UInt(value) => Value::UInt(*value),
            Literal::Double(value) => Value::Double(*value),
            Literal::String(text) => {
                self.budget.bytes(text.len())?;
                Value::text(text)
            }
            Literal::Bytes(bytes) => {
                self.budget.bytes(bytes.len())?;
                Value::Bytes(bytes.as_slice().into())
            }
        })
    }

    fn bound(&self, name: &str) -> Option<&Value> {
        let found = self.scope.iter().rev().find(|(bound, _)| *bound == name);
        found.map(|(_, value)| value)
    }

    fn name(&self, name: &str) -> Evaluated {
        if let Some(value) = self.bound(name) {
            return Ok(value.clone());
        }
        if name == "variables" {
            return Err(EvalError::Unsupported("`variables` as a value".to_owned()));
        }
        if let Some(value) = self.activation.named(name) {
            return Ok(value);
        }
        check::TYPES
            .iter()
            .find(|known| **known == name)
            .map(|known| Value::Type(known))
            .ok_or_else(|| EvalError::UndeclaredReference(name.to_owned()))
    }

    /// Whether a node is the request's `variables`.
    fn is_variables(&self, node: &Node) -> bool {
        matches!(&node.kind, Kind::Name(name) if name == "variables")
            && self.bound("variables").is_none()
    }

    fn select(&mut self, operand: &'a Node, field: &str, optional: bool) -> Evaluated {
        if self.is_variables(operand) {
            return match self.activation.variable(field, self.variables) {
                Some(at) if optional => self.variable(at).map(Value::some),
                Some(at) => self.variable(at),
                None if optional => Ok(Value::Optional(None)),
                None => Err(EvalError::NoSuchKey(field.to_owned())),
            };
        }
        self.budget.bytes(field.len())?;
        match self.node(operand)? {
            Value::Authorizer(question) if field == "requestResource" && !optional => {
                let asked = functions::authorizer::request_resource(self.activation, &question)?;
                self.budget.bytes(asked.weight())?;
                Ok(asked)
            }
            operand => qualify(&operand, &Value::text(field), optional),
        }
    }

    fn variable(&mut self, at: usize) -> Evaluated {
        let activation = self.activation;
        let budget = &mut *self.budget;
        activation.variable_value(at, |expression| {
            within(&expression.ast, expression.version, activation, budget, at)
        })
    }

    fn has(&mut self, operand: &'a Node, field: &str) -> Evaluated {
        if self.is_variables(operand) {
            let found = self.activation.variable(field, self.variables);
            return Ok(Value::Bool(found.is_some()));
        }
        self.budget.bytes(field.len())?;
        let mut operand = self.node(operand)?;
        while let Value::Optional(inner) = &operand {
            match inner {
                None => return Ok(Value::Bool(false)),
                Some(value) => operand = Value::clone(value),
            }
        }
        match &operand {
            Value::Map(map) => Ok(Value::Bool(map.contains_key(&Key::text(field)))),
            Value::List(_) => Err(EvalError::BadValue(
                "unsupported index type 'string' in list".to_owned(),
            )),
            // What has no fields does not have this one: so the API server, also of null.
            _ => Ok(Value::Bool(false)),
        }
    }

    fn binary(&mut self, operator: Binary, left: &'a Node, right: &'a Node) -> Evaluated {
        match operator {
            Binary::And => self.logical(left, right, false),
            Binary::Or => self.logical(left, right, true),
            _ => {
                let left = self.node(left)?;
                let right = self.node(right)?;
                operators::binary(operator, &left, &right, self.budget)
            }
        }
    }

    /// `&&` and `||`: the value that decides wins over an error on the other side.
    fn logical(&mut self, left: &'a Node, right: &'a Node, decides: bool) -> Evaluated {
        let left = match self.node(left) {
            Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
            Ok(Value::Bool(_)) => Ok(()),
            Ok(_) => Err(EvalError::NoSuchOverload),
            Err(error) if error.is_final() => return Err(error),
            Err(error) => Err(error),
        };
        match self.node(right) {
            Ok(Value::Bool(value)) if value == decides => Ok(Value::Bool(decides)),
            Err(error) if error.is_final() => Err(error),
            Ok(Value::Bool(value)) => left.map(|()| Value::Bool(value)),
            Ok(_) => left.and(Err(EvalError::NoSuchOverload)),
            Err(error) => left.and(Err(error)),
        }
    }

    fn call(
        &mut self,
        function: &str,
        target: Option<&'a Node>,
        arguments: &'a [Node],
    ) -> Evaluated {
        let space = target.and_then(|target| self.space(target));
        let mut values = Vec::with_capacity(arguments.len() + 1);
        if let (Some(target), None) = (target, space) {
            values.push(self.node(target)?);
        }
        for argument in arguments {
            values.push(self.node(argument)?);
        }
        // Each text is read at least once by what is called.
        for value in &values {
            self.budget.bytes(value.weight())?;
        }
        if let Some(space) = space {
            return functions::of_space(space, function, &values, self);
        }
        if target.is_some() {
            functions::member(function, &values, self)
        } else {
            functions::global(function, &values, self)
        }
    }

    fn space(&self, target: &Node) -> Option<&'static str> {
        let Kind::Name(name) = &target.kind else {
            return None;
        };
        if self.bound(name).is_some() {
            return None;
        }
        super::catalogue::SPACES
            .iter()
            .copied()
            .find(|space| space == name)
    }

    fn list(&mut self, elements: &'a [(Node, bool)]) -> Evaluated {
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            let value = self.node(element)?;
            if !*optional {
                values.push(value);
                continue;
            }
            match value {
                Value::Optional(inner) => values.extend(inner.as_deref().cloned()),
                _ => return Err(EvalError::NoSuchOverload),
            }
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, node: &'a Node) -> Evaluated {
        let Kind::Map(entries) = &node.kind else {
            return Err(EvalError::Failed);
        };
        let mut map = Map::new();
        for entry in entries {
            let key = self.node(&entry.key)?;
            let value = self.node(&entry.value)?;
            let value = match value {
                Value::Optional(None) if entry.optional => continue,
                Value::Optional(Some(inner)) if entry.optional => Value::clone(&inner),
                _ if entry.optional => return Err(EvalError::NoSuchOverload),
                value => value,
            };
            self.budget.bytes(key.weight())?;
            insert(&mut map, &key, value)?;
        }
        Ok(Value::map(map))
    }
}

/// Adds to a map what must not be in it.
fn insert(map: &mut Map, key: &Value, value: Value) -> Result<(), EvalError> {
    // A key that is no whole number or text is none.
    let key = match key {
        Value::Double(_) => None,
        other => Key::of(other),
    }
    .ok_or_else(|| EvalError::BadValue("unsupported key type".to_owned()))?;
    match map.entry(key) {
        std::collections::btree_map::Entry::Vacant(entry) => {
            entry.insert(value);
            Ok(())
        }
        std::collections::btree_map::Entry::Occupied(_) => Err(EvalError::BadValue(
            "insert failed: key already exists".to_owned(),
        )),
    }
}

/// `operand[index]`, `operand[?index]`, and the selections, which are the same by a text.
fn qualify(operand: &Value, index: &Value, optional: bool) -> Evaluated {
    if let Value::Optional(inner) = operand {
        // What follows an optional is optional.
        return match inner {
            None => Ok(Value::Optional(None)),
            Some(value) => qualify(value, index, true),
        };
    }
    match (find(operand, index)?, optional) {
        (Some(value), false) => Ok(value.clone()),
        (Some(value), true) => Ok(Value::some(value.clone())),
        (None, true) => Ok(Value::Optional(None)),
        (None, false) => {
            let text = short(&functions::convert::text_of(index).unwrap_or_default());
            Err(match operand {
                Value::List(_) => EvalError::IndexOutOfBounds(text),
                _ => EvalError::NoSuchKey(text),
            })
        }
    }
}

fn find<'v>(operand: &'v Value, index: &Value) -> Result<Option<&'v Value>, EvalError> {
    match operand {
        Value::Map(map) => match Key::of(index) {
            Some(key) => Ok(map.get(&key)),
            None if matches!(index, Value::Double(_)) => Ok(None),
            None => Err(EvalError::BadValue(format!(
                "unsupported key type: {}",
                index.type_name()
            ))),
        },
        Value::List(elements) => match Key::of(index) {
            Some(Key::Int(at)) => Ok(usize::try_from(at).ok().and_then(|at| elements.get(at))),
            Some(Key::UInt(_)) => Ok(None),
            Some(Key::Bool(_) | Key::String(_)) | None => Err(EvalError::BadValue(format!(
                "unsupported index type '{}' in list",
                index.type_name()
            ))),
        },
        _ => Ok(None),
    }
}

//! The macros: loops whose length is that of something that exists.
//!
//! Invariant: an element costs a step before its body is evaluated, and every element that is
//! made costs one.

use super::{Evaluated, Evaluator, insert};
use crate::cel::ast::{Macro, MacroKind, Node};
use crate::cel::functions::sorted_by;
use crate::cel::{EvalError, Map, Value};

/// What goes on in a loop: the next element, or the end.
enum Step {
    Next,
    Done,
}

impl<'a> Evaluator<'a> {
    pub(super) fn macro_(&mut self, inner: &'a Macro) -> Evaluated {
        let range = self.node(&inner.range)?;
        match inner.kind {
            MacroKind::All => self.decided(inner, &range, false),
            MacroKind::Exists => self.decided(inner, &range, true),
            MacroKind::ExistsOne => self.exists_one(inner, &range),
            MacroKind::Map | MacroKind::TransformList => self.mapped(inner, &range),
            MacroKind::Filter => self.filtered(inner, &range),
            MacroKind::TransformMap => self.transformed(inner, &range),
            MacroKind::TransformMapEntry => self.entries(inner, &range),
            MacroKind::OptMap | MacroKind::OptFlatMap => self.optional_macro(inner, range),
            MacroKind::SortBy => self.sorted(inner, &range),
        }
    }

    /// Goes through a list or a map, with its names bound.
    fn each(
        &mut self,
        inner: &'a Macro,
        range: &Value,
        mut body: impl FnMut(&mut Self, &Value, &Value) -> Result<Step, EvalError>,
    ) -> Result<(), EvalError> {
        match range {
            Value::List(elements) => {
                for (at, element) in elements.iter().enumerate() {
                    let at = Value::Int(i64::try_from(at).unwrap_or(i64::MAX));
                    if let Step::Done = self.element(inner, &at, element, false, &mut body)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    let key = key.value();
                    if let Step::Done = self.element(inner, &key, value, true, &mut body)? {
                        break;
                    }
                }
                Ok(())
            }
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn element(
        &mut self,
        inner: &'a Macro,
        key: &Value,
        value: &Value,
        of_map: bool,
        body: &mut impl FnMut(&mut Self, &Value, &Value) -> Result<Step, EvalError>,
    ) -> Result<Step, EvalError> {
        self.budget.charge(1)?;
        let before = self.scope.len();
        match &inner.second {
            Some(second) => {
                self.scope.push((&inner.name, key.clone()));
                self.scope.push((second, value.clone()));
            }
            // One name is the element of a list and the key of a map.
            None if of_map => self.scope.push((&inner.name, key.clone())),
            None => self.scope.push((&inner.name, value.clone())),
        }
        let step = body(self, key, value);
        self.scope.truncate(before);
        step
    }

    /// `all` and `exists`: an element that decides wins over the errors of all others.
    fn decided(&mut self, inner: &'a Macro, range: &Value, decides: bool) -> Evaluated {
        let mut result = Ok(Value::Bool(!decides));
        self.each(inner, range, |this, _, _| {
            match this.node(&inner.body) {
                Ok(Value::Bool(value)) if value == decides => {
                    result = Ok(Value::Bool(decides));
                    return Ok(Step::Done);
                }
                Ok(Value::Bool(_)) => {}
                Ok(_) if result.is_ok() => result = Err(EvalError::NoSuchOverload),
                Err(error) if error.is_final() => return Err(error),
                Err(error) if result.is_ok() => result = Err(error),
                Ok(_) | Err(_) => {}
            }
            Ok(Step::Next)
        })?;
        result
    }

    fn exists_one(&mut self, inner: &'a Macro, range: &Value) -> Evaluated {
        let mut count = 0_u64;
        self.each(inner, range, |this, _, _| {
            count += u64::from(this.holds(&inner.body)?);
            Ok(Step::Next)
        })?;
        Ok(Value::Bool(count == 1))
    }

    fn mapped(&mut self, inner: &'a Macro, range: &Value) -> Evaluated {
        let mut values = Vec::new();
        self.each(inner, range, |this, _, _| {
            if this.passes(inner)? {
                values.push(this.node(&inner.body)?);
            }
            Ok(Step::Next)
        })?;
        Ok(Value::list(values))
    }

    fn filtered(&mut self, inner: &'a Macro, range: &Value) -> Evaluated {
        let mut values = Vec::new();
        let of_map = matches!(range, Value::Map(_));
        self.each(inner, range, |this, key, value| {
            if this.holds(&inner.body)? {
                values.push(if of_map { key.clone() } else { value.clone() });
            }
            Ok(Step::Next)
        })?;
        Ok(Value::list(values))
    }

    fn transformed(&mut self, inner: &'a Macro, range: &Value) -> Evaluated {
        let mut map = Map::new();
        self.each(inner, range, |this, key, _| {
            if this.passes(inner)? {
                let value = this.node(&inner.body)?;
                this.budget.bytes(key.weight())?;
                insert(&mut map, key, value)?;
            }
            Ok(Step::Next)
        })?;
        Ok(Value::map(map))
    }

    fn entries(&mut self, inner: &'a Macro, range: &Value) -> Evaluated {
        let mut map = Map::new();
        self.each(inner, range, |this, _, _| {
            if this.passes(inner)? {
                let Value::Map(made) = this.node(&inner.body)? else {
                    return Err(EvalError::NoSuchOverload);
                };
                for (key, value) in made.iter() {
                    this.budget.charge(1 + key.weight() as u64 / 8)?;
                    insert(&mut map, &key.value(), value.clone())?;
                }
            }
            Ok(Step::Next)
        })?;
        Ok(Value::map(map))
    }

    fn optional_macro(&mut self, inner: &'a Macro, range: Value) -> Evaluated {
        let Value::Optional(content) = range else {
            return Err(EvalError::NoSuchOverload);
        };
        let Some(content) = content else {
            return Ok(Value::Optional(None));
        };
        self.scope.push((&inner.name, Value::clone(&content)));
        let value = self.node(&inner.body);
        self.scope.pop();
        match (value?, inner.kind) {
            (value @ Value::Optional(_), MacroKind::OptFlatMap) => Ok(value),
            (_, MacroKind::OptFlatMap) => Err(EvalError::NoSuchOverload),
            (value, _) => Ok(Value::some(value)),
        }
    }

    fn sorted(&mut self, inner: &'a Macro, range: &Value) -> Evaluated {
        let Value::List(elements) = range else {
            return Err(EvalError::NoSuchOverload);
        };
        let mut keys = Vec::new();
        self.each(inner, range, |this, _, _| {
            keys.push(this.node(&inner.body)?);
            Ok(Step::Next)
        })?;
        sorted_by(elements, &keys, self.budget)
    }

    fn passes(&mut self, inner: &'a Macro) -> Result<bool, EvalError> {
        inner
            .condition
            .as_ref()
            .map_or(Ok(true), |condition| self.holds(condition))
    }

    fn holds(&mut self, node: &'a Node) -> Result<bool, EvalError> {
        match self.node(node)? {
            Value::Bool(value) => Ok(value),
            _ => Err(EvalError::NoSuchOverload),
        }
    }
}

//! Functions of lists, and sets.

use super::{int, strings};
use crate::cel::evaluate::Evaluated;
use crate::cel::operators::{compare, equal, holds, order};
use crate::cel::{Budget, EvalError, Value, ast::Binary, operators};
use std::cmp::Ordering;
use std::sync::Arc;

type List = [Value];

/// Go's sort leaves equal keys in their order up to so many elements, and above it does not say.
const KEPT_IN_ORDER: usize = 12;

pub(super) fn member(
    name: &str,
    elements: &List,
    rest: &[Value],
    budget: &mut Budget,
) -> Evaluated {
    budget.elements(elements.len())?;
    match (name, rest) {
        ("isSorted", []) => is_sorted(elements, budget),
        ("sum", []) => sum(elements, budget),
        ("min", []) => extreme(elements, "min", Ordering::Less, budget),
        ("max", []) => extreme(elements, "max", Ordering::Greater, budget),
        ("indexOf", [value]) => position(elements.iter().enumerate(), value, budget),
        ("lastIndexOf", [value]) => position(elements.iter().enumerate().rev(), value, budget),
        ("join", []) => strings::join(elements, "", budget),
        ("join", [Value::String(by)]) => strings::join(elements, by, budget),
        ("distinct", []) => distinct(elements, budget),
        ("flatten", []) => flatten(elements, 1, budget),
        ("flatten", [Value::Int(depth)]) => flatten(elements, *depth, budget),
        ("slice", [Value::Int(from), Value::Int(to)]) => slice(elements, *from, *to),
        ("sort", []) => sorted_by(elements, elements, budget),
        ("first", []) => Ok(Value::Optional(elements.first().cloned().map(Arc::new))),
        ("last", []) => Ok(Value::Optional(elements.last().cloned().map(Arc::new))),
        ("unwrapOpt", []) => unwrapped(elements, budget),
        ("reverse", []) => Ok(Value::list(elements.iter().rev().cloned().collect())),
        _ => Err(EvalError::NoSuchOverload),
    }
}

pub(super) fn sets(name: &str, a: &List, b: &List, budget: &mut Budget) -> Evaluated {
    let all_in = |of: &List, within: &List, budget: &mut Budget| {
        for value in of.iter() {
            if !holds(within, value, budget)? {
                return Ok(false);
            }
        }
        Ok::<_, EvalError>(true)
    };
    match name {
        "contains" => all_in(b, a, budget).map(Value::Bool),
        "equivalent" => Ok(Value::Bool(all_in(a, b, budget)? && all_in(b, a, budget)?)),
        "intersects" => {
            for value in a.iter() {
                if holds(b, value, budget)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn ordered(a: &Value, b: &Value, budget: &mut Budget) -> Result<Ordering, EvalError> {
    budget.charge(1)?;
    compare(a, b, budget)?.ok_or_else(unordered)
}

/// The API server goes on as if nothing were less or more, from where on is its library's matter.
fn unordered() -> EvalError {
    EvalError::Unsupported("the order of NaN in a list".to_owned())
}

/// What the API server takes a comparison of each element with each to cost.
fn pay_for_pairs(elements: &[Value], budget: &mut Budget) -> Result<(), EvalError> {
    let pairs = (elements.len() as u64).saturating_pow(2);
    budget.charge(12 + pairs.saturating_mul(21) / 10)
}

fn is_sorted(elements: &[Value], budget: &mut Budget) -> Evaluated {
    for pair in elements.windows(2) {
        if let [a, b] = pair
            && ordered(a, b, budget)?.is_gt()
        {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum(elements: &[Value], budget: &mut Budget) -> Evaluated {
    let mut rest = elements.iter();
    // What a sum of nothing is depends on the type, which an empty list does not tell.
    let Some(first) = rest.next() else {
        return Ok(Value::Int(0));
    };
    let adds = matches!(
        first,
        Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Duration(_)
    );
    if !adds {
        return Err(EvalError::NoSuchOverload);
    }
    rest.try_fold(first.clone(), |total, next| {
        operators::binary(Binary::Add, &total, next, budget)
    })
}

fn extreme(elements: &[Value], name: &str, wanted: Ordering, budget: &mut Budget) -> Evaluated {
    let mut found: Option<&Value> = None;
    for element in elements {
        match found {
            Some(best) if ordered(element, best, budget)? != wanted => {}
            Some(_) | None => found = Some(element),
        }
    }
    found
        .cloned()
        .ok_or_else(|| EvalError::BadValue(format!("{name} called on empty list")))
}

fn position<'v>(
    elements: impl Iterator<Item = (usize, &'v Value)>,
    value: &Value,
    budget: &mut Budget,
) -> Evaluated {
    for (at, element) in elements {
        if equal(element, value, budget)? {
            return Ok(int(at));
        }
    }
    Ok(Value::Int(-1))
}

fn distinct(elements: &[Value], budget: &mut Budget) -> Evaluated {
    pay_for_pairs(elements, budget)?;
    let mut kept = Vec::new();
    for element in elements {
        if !holds(&kept, element, budget)? {
            kept.push(element.clone());
        }
    }
    Ok(Value::list(kept))
}

fn flatten(elements: &[Value], depth: i64, budget: &mut Budget) -> Evaluated {
    if depth < 0 {
        return Err(EvalError::BadValue("level must be non-negative".to_owned()));
    }
    let mut flat = elements.to_vec();
    for _ in 0..depth {
        if !flat.iter().any(|element| matches!(element, Value::List(_))) {
            break;
        }
        let mut next = Vec::new();
        for element in flat {
            match element {
                Value::List(inner) => {
                    budget.elements(inner.len() + 1)?;
                    next.extend(inner.iter().cloned());
                }
                other => next.push(other),
            }
        }
        budget.elements(next.len() + 1)?;
        flat = next;
    }
    Ok(Value::list(flat))
}

fn slice(elements: &[Value], from: i64, to: i64) -> Evaluated {
    let part = usize::try_from(from)
        .ok()
        .zip(usize::try_from(to).ok())
        .and_then(|(from, to)| elements.get(from..to));
    part.map(|part| Value::list(part.to_vec())).ok_or_else(|| {
        EvalError::BadValue(format!(
            "cannot slice({from}, {to}), list is length {}",
            elements.len()
        ))
    })
}

/// The elements in the order of their keys.
pub(in crate::cel) fn sorted_by(
    elements: &[Value],
    keys: &[Value],
    budget: &mut Budget,
) -> Evaluated {
    pay_for_pairs(keys, budget)?;
    comparable(keys)?;
    // In each of some log n rounds an element is compared with one that is read no further than it.
    let text: usize = keys.iter().map(Value::weight).sum();
    let rounds = usize::BITS - keys.len().leading_zeros() + 1;
    budget.bytes(text.saturating_mul(rounds as usize))?;
    let mut sorted: Vec<(&Value, &Value)> = keys.iter().zip(elements).collect();
    sorted.sort_by(|(a, _), (b, _)| order(a, b).flatten().unwrap_or(Ordering::Equal));
    if sorted.len() > KEPT_IN_ORDER {
        for pair in sorted.windows(2) {
            if let [(a, left), (b, right)] = pair
                && order(a, b).flatten() == Some(Ordering::Equal)
                && !equal(left, right, budget)?
            {
                return Err(EvalError::Unsupported(format!(
                    "the order of equal keys among more than {KEPT_IN_ORDER} elements"
                )));
            }
        }
    }
    Ok(Value::list(
        sorted
            .into_iter()
            .map(|(_, element)| element.clone())
            .collect(),
    ))
}

/// Whether there is an order in which they are, all of one type.
fn comparable(keys: &[Value]) -> Result<(), EvalError> {
    let Some(first) = keys.first() else {
        return Ok(());
    };
    let bad = |what: &str| Err(EvalError::BadValue(what.to_owned()));
    if order(first, first).is_none() {
        return bad("list elements must be comparable");
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return bad("list elements must have the same type");
    }
    match keys.iter().all(|key| order(key, key).flatten().is_some()) {
        true => Ok(()),
        false => Err(unordered()),
    }
}

/// What the optionals of a list hold.
pub(super) fn unwrapped(elements: &List, budget: &mut Budget) -> Evaluated {
    budget.elements(elements.len())?;
    let mut held = Vec::new();
    for element in elements {
        match element {
            Value::Optional(Some(value)) => held.push(Value::clone(value)),
            Value::Optional(None) => {}
            _ => return Err(EvalError::NoSuchOverload),
        }
    }
    Ok(Value::list(held))
}

/// `[0, 1, … end - 1]`
pub(super) fn range(end: i64, budget: &mut Budget) -> Evaluated {
    budget.charge(u64::try_from(end).unwrap_or(0))?;
    Ok(Value::list((0..end).map(Value::Int).collect()))
}

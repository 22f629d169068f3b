//! Functions of lists, and sets.

use super::{int, strings};
use crate::cel::evaluate::Evaluated;
use crate::cel::operators::{compare, equal, holds};
use crate::cel::{Budget, EvalError, Value, ast::Binary, operators};
use std::cmp::Ordering;

type List = [Value];

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
        ("sort", []) => sort(elements, budget),
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
    compare(a, b, budget)?.ok_or(EvalError::NoSuchOverload)
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

fn sort(elements: &[Value], budget: &mut Budget) -> Evaluated {
    let mut sorted = elements.to_vec();
    let mut failed = None;
    sorted.sort_by(|a, b| {
        if failed.is_some() {
            return Ordering::Equal;
        }
        ordered(a, b, budget).unwrap_or_else(|error| {
            failed = Some(error);
            Ordering::Equal
        })
    });
    failed.map_or_else(|| Ok(Value::list(sorted)), Err)
}

//! The operators: each makes of one node others that a person might have written by mistake.

use super::regex;
use crate::cel::ast::{Binary, Kind, Literal, Macro, MacroKind, Node, Unary};

/// One change of an expression.
pub(super) struct Mutation {
    pub(super) operator: &'static str,
    /// What stood there and what stands there now.
    pub(super) text: String,
    /// The whole expression, changed.
    pub(super) node: Node,
}

/// Every mutation of an expression; of two that make the same, the first.
pub(super) fn mutations(root: &Node) -> Vec<Mutation> {
    let mut found: Vec<Mutation> = Vec::new();
    let own = root.to_string();
    for (operator, text, node) in everywhere(root) {
        let made = node.to_string();
        if made != own && found.iter().all(|other| other.node.to_string() != made) {
            found.push(Mutation {
                operator,
                text,
                node,
            });
        }
    }
    found
}

type Found = (&'static str, String, Node);

fn everywhere(node: &Node) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for (operator, kind) in here(node) {
        let changed = Node { at: node.at, kind };
        found.push((operator, format!("{node} => {changed}"), changed));
    }
    for (at, child) in node.children().into_iter().enumerate() {
        for (operator, text, changed) in everywhere(child) {
            let mut whole = node.clone();
            if let Some(place) = whole.children_mut().into_iter().nth(at) {
                *place = changed;
            }
            found.push((operator, text, whole));
        }
    }
    found
}

/// What the node itself may become.
fn here(node: &Node) -> Vec<(&'static str, Kind)> {
    let mut made = Vec::new();
    match &node.kind {
        Kind::Literal(literal) => {
            let others = constants(literal).into_iter();
            made.extend(others.map(|other| ("change constant", Kind::Literal(other))));
        }
        Kind::Binary {
            operator,
            left,
            right,
        } => binary(*operator, left, right, &mut made),
        Kind::Unary {
            operator: Unary::Not,
            operand,
        } => made.push(("negate", operand.kind.clone())),
        Kind::Conditional { yes, no, .. } => {
            made.push(("take a branch", yes.kind.clone()));
            made.push(("take a branch", no.kind.clone()));
        }
        Kind::Call {
            function,
            target: Some(target),
            arguments,
        } => call(function, target, arguments, &mut made),
        Kind::Macro(inner) => macro_(inner, &mut made),
        Kind::List(elements) => {
            for at in 0..elements.len() {
                let mut fewer = elements.clone();
                fewer.remove(at);
                made.push(("drop element", Kind::List(fewer)));
            }
        }
        Kind::Select { operand, .. } if is_name(operand, "object") => {
            made.extend(other_object(node).map(|kind| ("other object", kind)));
        }
        Kind::Select { operand, .. } if is_name(operand, "variables") => {
            for literal in [Literal::Bool(true), Literal::Bool(false)] {
                made.push(("drop variable use", Kind::Literal(literal)));
            }
            made.push(("drop variable use", Kind::List(Vec::new())));
            made.push(("drop variable use", Kind::Map(Vec::new())));
        }
        _ => {}
    }
    if is_boolean(node) {
        made.push(("negate", not(node)));
    }
    made
}

fn is_name(node: &Node, name: &str) -> bool {
    node.kind == Kind::Name(name.to_owned())
}

fn not(node: &Node) -> Kind {
    Kind::Unary {
        operator: Unary::Not,
        operand: Box::new(node.clone()),
    }
}

/// Whether it is one by its form; a name or a field may be one as well.
fn is_boolean(node: &Node) -> bool {
    match &node.kind {
        Kind::Has { .. } => true,
        Kind::Binary { operator, .. } => !matches!(
            operator,
            Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo
        ),
        Kind::Call { function, .. } => {
            ["matches", "startsWith", "endsWith", "contains"].contains(&function.as_str())
        }
        Kind::Macro(inner) => matches!(
            inner.kind,
            MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne
        ),
        _ => false,
    }
}

/// Whether the clause is there so that another can be evaluated.
fn is_guard(node: &Node) -> bool {
    match &node.kind {
        Kind::Has { .. } => true,
        Kind::Unary { operand, .. } => is_guard(operand),
        Kind::Binary {
            operator: Binary::In,
            left,
            ..
        } => matches!(left.kind, Kind::Literal(_) | Kind::Name(_)),
        Kind::Binary { left, right, .. } => [left, right]
            .iter()
            .any(|side| side.kind == Kind::Literal(Literal::Null)),
        _ => false,
    }
}

fn binary(operator: Binary, left: &Node, right: &Node, made: &mut Vec<(&'static str, Kind)>) {
    let with = |operator| Kind::Binary {
        operator,
        left: Box::new(left.clone()),
        right: Box::new(right.clone()),
    };
    match operator {
        Binary::And | Binary::Or => {
            for (dropped, kept) in [(left, right), (right, left)] {
                let name = if is_guard(dropped) {
                    "drop guard"
                } else {
                    "drop clause"
                };
                made.push((name, kept.kind.clone()));
            }
            let other = if operator == Binary::And {
                Binary::Or
            } else {
                Binary::And
            };
            made.push(("swap and/or", with(other)));
        }
        Binary::Add => {
            made.push(("drop operand", left.kind.clone()));
            made.push(("drop operand", right.kind.clone()));
        }
        Binary::Equal if is_number(left) || is_number(right) => {
            made.push(("weaken comparison", with(Binary::GreaterOrEqual)));
            made.push(("weaken comparison", with(Binary::LessOrEqual)));
        }
        Binary::Less => made.push(("weaken comparison", with(Binary::LessOrEqual))),
        Binary::LessOrEqual => made.push(("weaken comparison", with(Binary::Less))),
        Binary::Greater => made.push(("weaken comparison", with(Binary::GreaterOrEqual))),
        Binary::GreaterOrEqual => made.push(("weaken comparison", with(Binary::Greater))),
        Binary::In => made.extend(elements(left, right)),
        Binary::Equal
        | Binary::NotEqual
        | Binary::Subtract
        | Binary::Multiply
        | Binary::Divide
        | Binary::Modulo => {}
    }
}

/// `x in [a, b]` as `x.startsWith(a)`: a prefix for the whole is the classic mistake.
fn elements(left: &Node, right: &Node) -> Option<(&'static str, Kind)> {
    let Kind::List(list) = &right.kind else {
        return None;
    };
    let (first, _) = list.first()?;
    let kind = Kind::Call {
        function: "startsWith".to_owned(),
        target: Some(Box::new(left.clone())),
        arguments: vec![first.clone()],
    };
    Some(("weaken comparison", kind))
}

fn is_number(node: &Node) -> bool {
    matches!(
        node.kind,
        Kind::Literal(Literal::Int(_) | Literal::UInt(_) | Literal::Double(_))
    )
}

fn constants(literal: &Literal) -> Vec<Literal> {
    match literal {
        Literal::Bool(value) => vec![Literal::Bool(!value)],
        Literal::Int(value) => vec![
            Literal::Int(value.saturating_add(1)),
            Literal::Int(value.saturating_sub(1)),
        ],
        Literal::UInt(value) => vec![Literal::UInt(value.saturating_add(1))],
        Literal::Double(value) => vec![Literal::Double(value + 1.0)],
        Literal::String(text) => {
            let mut others = vec![format!("{text}x"), format!("x{text}"), String::new()];
            let mut shorter = text.clone();
            shorter.pop();
            others.push(shorter);
            others.into_iter().map(Literal::String).collect()
        }
        Literal::Null | Literal::Bytes(_) => Vec::new(),
    }
}

fn call(function: &str, target: &Node, arguments: &[Node], made: &mut Vec<(&'static str, Kind)>) {
    let with = |function: &str, arguments: Vec<Node>| Kind::Call {
        function: function.to_owned(),
        target: Some(Box::new(target.clone())),
        arguments,
    };
    match (function, arguments) {
        ("matches", [pattern]) => {
            if let Kind::Literal(Literal::String(text)) = &pattern.kind {
                for other in regex::patterns(text) {
                    let kind = Kind::Literal(Literal::String(other));
                    let at = pattern.at;
                    made.push(("change pattern", with("matches", vec![Node { at, kind }])));
                }
            }
        }
        ("startsWith" | "endsWith", [_]) => {
            made.push(("weaken comparison", with("contains", arguments.to_vec())));
        }
        ("lowerAscii" | "upperAscii" | "trim", []) => {
            made.push(("drop call", target.kind.clone()));
        }
        _ => {}
    }
}

fn macro_(inner: &Macro, made: &mut Vec<(&'static str, Kind)>) {
    let as_kind = |kind| {
        let other = Macro {
            kind,
            ..inner.clone()
        };
        Kind::Macro(Box::new(other))
    };
    match inner.kind {
        MacroKind::All => made.push(("all/exists", as_kind(MacroKind::Exists))),
        MacroKind::Exists => {
            made.push(("all/exists", as_kind(MacroKind::All)));
            made.push(("all/exists", as_kind(MacroKind::ExistsOne)));
        }
        MacroKind::ExistsOne => made.push(("all/exists", as_kind(MacroKind::Exists))),
        MacroKind::Filter => made.push(("drop filter", inner.range.kind.clone())),
        MacroKind::Map
        | MacroKind::OptMap
        | MacroKind::OptFlatMap
        | MacroKind::TransformList
        | MacroKind::TransformMap
        | MacroKind::TransformMapEntry
        | MacroKind::SortBy => {}
    }
}

/// `object.x` as `oldObject.x`.
fn other_object(node: &Node) -> Option<Kind> {
    let mut changed = node.clone();
    let root = changed.children_mut().into_iter().next()?;
    root.kind = Kind::Name("oldObject".to_owned());
    Some(changed.kind)
}

//! From text to [`Node`], by the parser of the crate `cel`.
//!
//! Invariant: this file and [`super::scan`] are the only ones that name the crate. A panic in it
//! is an error of the text, and what we cannot represent is refused, never approximated.

use super::ast::{Binary, Entry, Kind, Literal, Macro, MacroKind, Node, Position, Unary};
use super::{CompileError, scan};
use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, MapExpr, SourceInfo, operators,
};
use cel::parser::{ParseErrors, PrattParser};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The name that the crate's macros give to what they accumulate.
const ACCUMULATOR: &str = "@result";

/// Parses a text; names and functions are not looked at.
pub(super) fn parse(source: &str) -> Result<Node, CompileError> {
    scan::check(source)?;
    catch_unwind(AssertUnwindSafe(|| parse_unguarded(source))).unwrap_or_else(|_| {
        Err(CompileError::limit_at_start(
            "the parser failed on this expression".to_owned(),
        ))
    })
}

fn parse_unguarded(source: &str) -> Result<Node, CompileError> {
    let tree = parser()
        .parse(source)
        .map_err(|errors| first(source, &errors))?;
    let lower = Lower {
        places: places(source)?,
        positions: Position::all(source),
    };
    lower.node(&tree)
}

fn parser() -> PrattParser {
    PrattParser::new()
        .enable_optional_syntax(true)
        // The first error is the one that is told.
        .error_recovery_limit(1)
        .max_recursion_depth(96)
        .max_expression_node_count(16 * scan::MAX_TOKENS)
}

fn first(source: &str, errors: &ParseErrors) -> CompileError {
    let Some(error) = errors.errors.iter().find(|error| error.pos.0 > 0) else {
        let message = errors.errors.first().map_or("", |error| error.msg.as_str());
        return CompileError::limit_at_start(format!("syntax error: {message}"));
    };
    let at = error
        .source_info
        .as_ref()
        .and_then(|info| info.offset_for(error.expr_id))
        .map_or_else(
            || Position {
                line: u32::try_from(error.pos.0).unwrap_or(1),
                column: u32::try_from(error.pos.1).unwrap_or(1).max(1),
            },
            |(start, _)| Position::of(source, start as usize),
        );
    let message = error
        .msg
        .strip_prefix("Syntax error: ")
        .unwrap_or(&error.msg);
    CompileError::new(format!("syntax error: {message}"), at)
}

/// The places of the nodes. The parser keeps them to itself, but gives them away with an error,
/// and a brace too many behind the expression changes nothing before it: ids are counted up in
/// the order of the text. A test holds the crate to that.
fn places(source: &str) -> Result<Arc<SourceInfo>, CompileError> {
    let fails = format!("{source}\n}}");
    let errors = match parser().parse(&fails) {
        Err(errors) => errors.errors,
        Ok(_) => Vec::new(),
    };
    errors
        .into_iter()
        .find_map(|error| error.source_info)
        .ok_or_else(|| CompileError::limit_at_start("the parser told no places".to_owned()))
}

struct Lower {
    places: Arc<SourceInfo>,
    /// Of each byte of the source.
    positions: Vec<Position>,
}

type Lowered = Result<Node, CompileError>;

impl Lower {
    fn at(&self, id: u64) -> Position {
        let offset = self.places.offset_for(id).map_or(0, |(start, _)| start);
        let last = self.positions.last();
        let found = self.positions.get(offset as usize).or(last);
        found.copied().unwrap_or(Position { line: 1, column: 1 })
    }

    fn node(&self, node: &IdedExpr) -> Lowered {
        let kind = match &node.expr {
            Expr::Unspecified => return Err(self.refuse(node.id, "this is no expression")),
            Expr::Struct(value) => {
                let text = format!(
                    "`{}{{…}}`: objects are not supported by this engine",
                    value.type_name
                );
                return Err(CompileError::limit(text, self.at(node.id)));
            }
            Expr::Literal(value) => Kind::Literal(literal(value)),
            // A leading dot only says that the name is not relative to a container: there is none.
            Expr::Ident(name) => Kind::Name(name.trim_start_matches('.').to_owned()),
            Expr::Select(select) => self.select(&select.operand, &select.field, select.test)?,
            Expr::Call(call) => self.call(node.id, call)?,
            Expr::List(list) => Kind::List(
                list.elements
                    .iter()
                    .enumerate()
                    .map(|(at, element)| {
                        Ok((self.node(element)?, list.optional_indices.contains(&at)))
                    })
                    .collect::<Result<_, CompileError>>()?,
            ),
            Expr::Map(map) => Kind::Map(self.entries(map)?),
            Expr::Comprehension(inner) => {
                Kind::Macro(Box::new(self.comprehension(node.id, inner)?))
            }
        };
        Ok(Node {
            at: self.at(node.id),
            kind,
        })
    }

    fn select(&self, operand: &IdedExpr, field: &str, test: bool) -> Result<Kind, CompileError> {
        let operand = Box::new(self.node(operand)?);
        let field = field.to_owned();
        Ok(if test {
            Kind::Has { operand, field }
        } else {
            Kind::Select {
                operand,
                field,
                optional: false,
            }
        })
    }

    fn entries(&self, map: &MapExpr) -> Result<Vec<Entry>, CompileError> {
        map.entries
            .iter()
            .map(|entry| match &entry.expr {
                EntryExpr::MapEntry(inner) => Ok(Entry {
                    key: self.node(&inner.key)?,
                    value: self.node(&inner.value)?,
                    optional: inner.optional,
                }),
                EntryExpr::StructField(_) => Err(self.refuse(entry.id, "this is no map")),
            })
            .collect()
    }

    fn call(&self, id: u64, call: &CallExpr) -> Result<Kind, CompileError> {
        if call.target.is_none()
            && let Some(kind) = self.operator(call)?
        {
            return Ok(kind);
        }
        if let Some(target) = &call.target
            && let Some((kind, names)) = written_macro(&call.func_name, call.args.len())
        {
            return self.written(id, kind, names, target, &call.args);
        }
        Ok(Kind::Call {
            function: call.func_name.trim_start_matches('.').to_owned(),
            target: call
                .target
                .as_ref()
                .map(|target| self.node(target).map(Box::new))
                .transpose()?,
            arguments: call
                .args
                .iter()
                .map(|argument| self.node(argument))
                .collect::<Result<_, _>>()?,
        })
    }

    fn operator(&self, call: &CallExpr) -> Result<Option<Kind>, CompileError> {
        let boxed = |node: &IdedExpr| self.node(node).map(Box::new);
        let kind = match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => Kind::Conditional {
                condition: boxed(condition)?,
                yes: boxed(yes)?,
                no: boxed(no)?,
            },
            (operators::LOGICAL_NOT, [operand]) => Kind::Unary {
                operator: Unary::Not,
                operand: boxed(operand)?,
            },
            (operators::NEGATE, [operand]) => Kind::Unary {
                operator: Unary::Negate,
                operand: boxed(operand)?,
            },
            (name @ (operators::INDEX | operators::OPT_INDEX), [operand, index]) => Kind::Index {
                operand: boxed(operand)?,
                index: boxed(index)?,
                optional: name == operators::OPT_INDEX,
            },
            (operators::OPT_SELECT, [operand, field]) => {
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                    return Err(self.refuse(field.id, "a field's name was expected"));
                };
                Kind::Select {
                    operand: boxed(operand)?,
                    field: field.inner().to_owned(),
                    optional: true,
                }
            }
            (name, [left, right]) => {
                let Some(operator) = binary(name) else {
                    return Ok(None);
                };
                Kind::Binary {
                    operator,
                    left: boxed(left)?,
                    right: boxed(right)?,
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(kind))
    }

    /// A macro that the parser leaves as a call: the crate does not know it.
    fn written(
        &self,
        id: u64,
        kind: MacroKind,
        names: usize,
        target: &IdedExpr,
        arguments: &[IdedExpr],
    ) -> Result<Kind, CompileError> {
        let name = |at: usize| match arguments.get(at).map(|node| &node.expr) {
            Some(Expr::Ident(name)) if !name.starts_with('.') => Ok(name.clone()),
            Some(_) | None => Err(self.refuse(id, "argument must be a simple name")),
        };
        let [rest @ .., body] = arguments else {
            return Err(self.refuse(id, "a body was expected"));
        };
        Ok(Kind::Macro(Box::new(Macro {
            kind,
            range: self.node(target)?,
            name: name(0)?,
            second: (names == 2).then(|| name(1)).transpose()?,
            condition: rest.get(names).map(|node| self.node(node)).transpose()?,
            body: self.node(body)?,
        })))
    }

    /// Says which macro a loop was.
    fn comprehension(&self, id: u64, loop_: &ComprehensionExpr) -> Result<Macro, CompileError> {
        let unknown = || self.refuse(id, "a macro that this engine does not know");
        if loop_.accu_var != ACCUMULATOR || loop_.iter_var2.is_some() {
            return Err(unknown());
        }
        let Expr::Call(step) = &loop_.loop_step.expr else {
            return Err(unknown());
        };
        let (kind, condition, body) = match (step.func_name.as_str(), step.args.as_slice()) {
            (operators::LOGICAL_AND, [_, body]) => (MacroKind::All, None, body),
            (operators::LOGICAL_OR, [_, body]) => (MacroKind::Exists, None, body),
            (operators::ADD, [_, list]) => {
                (MacroKind::Map, None, single(list).ok_or_else(unknown)?)
            }
            (operators::CONDITIONAL, [condition, add, _]) => {
                let Expr::Call(CallExpr { args, .. }) = &add.expr else {
                    return Err(unknown());
                };
                let added = args.get(1).ok_or_else(unknown)?;
                match (single(added), &loop_.accu_init.expr) {
                    (None, Expr::Literal(_)) => (MacroKind::ExistsOne, None, condition),
                    (Some(value), _) if value.expr == Expr::Ident(loop_.iter_var.clone()) => {
                        (MacroKind::Filter, None, condition)
                    }
                    (Some(value), _) => (MacroKind::Map, Some(condition), value),
                    (None, _) => return Err(unknown()),
                }
            }
            _ => return Err(unknown()),
        };
        Ok(Macro {
            kind,
            range: self.node(&loop_.iter_range)?,
            name: loop_.iter_var.clone(),
            second: None,
            condition: condition.map(|node| self.node(node)).transpose()?,
            body: self.node(body)?,
        })
    }

    fn refuse(&self, id: u64, message: &str) -> CompileError {
        CompileError::new(message.to_owned(), self.at(id))
    }
}

/// The macros that the crate leaves as calls, with how many names they bind.
fn written_macro(name: &str, arguments: usize) -> Option<(MacroKind, usize)> {
    Some(match (name, arguments) {
        ("all", 3) => (MacroKind::All, 2),
        ("exists", 3) => (MacroKind::Exists, 2),
        ("exists_one" | "existsOne", 3) => (MacroKind::ExistsOne, 2),
        ("transformList", 3 | 4) => (MacroKind::TransformList, 2),
        ("transformMap", 3 | 4) => (MacroKind::TransformMap, 2),
        ("transformMapEntry", 3 | 4) => (MacroKind::TransformMapEntry, 2),
        ("optMap", 2) => (MacroKind::OptMap, 1),
        ("optFlatMap", 2) => (MacroKind::OptFlatMap, 1),
        ("sortBy", 2) => (MacroKind::SortBy, 1),
        _ => return None,
    })
}

fn single(node: &IdedExpr) -> Option<&IdedExpr> {
    let Expr::List(list) = &node.expr else {
        return None;
    };
    match list.elements.as_slice() {
        [element] => Some(element),
        _ => None,
    }
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        operators::LOGICAL_AND => Binary::And,
        operators::LOGICAL_OR => Binary::Or,
        operators::EQUALS => Binary::Equal,
        operators::NOT_EQUALS => Binary::NotEqual,
        operators::LESS => Binary::Less,
        operators::LESS_EQUALS => Binary::LessOrEqual,
        operators::GREATER => Binary::Greater,
        operators::GREATER_EQUALS => Binary::GreaterOrEqual,
        operators::ADD => Binary::Add,
        operators::SUBSTRACT => Binary::Subtract,
        operators::MULTIPLY => Binary::Multiply,
        operators::DIVIDE => Binary::Divide,
        operators::MODULO => Binary::Modulo,
        operators::IN => Binary::In,
        _ => return None,
    })
}

fn literal(value: &LiteralValue) -> Literal {
    match value {
        LiteralValue::Null => Literal::Null,
        LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
        LiteralValue::Int(value) => Literal::Int(*value.inner()),
        LiteralValue::UInt(value) => Literal::UInt(*value.inner()),
        LiteralValue::Double(value) => Literal::Double(*value.inner()),
        LiteralValue::String(value) => Literal::String(value.inner().to_owned()),
        LiteralValue::Bytes(value) => Literal::Bytes(value.inner().to_vec()),
    }
}

//! An expression's text from its tree.
//!
//! Invariant: parsing the text gives the tree again, places aside. Every operator in another has
//! its parentheses, so that no table of precedence has to agree with the parser's.

use super::ast::{Binary, Entry, Kind, Literal, Macro, MacroKind, Node, Unary};
use std::fmt::{self, Display, Formatter};

impl Display for Node {
    /// CEL that parses to this tree.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Literal(literal) => literal.fmt(f),
            Kind::Name(name) => f.write_str(name),
            Kind::Select {
                operand,
                field,
                optional,
            } => write!(f, "{}.{}{field}", Inner(operand), mark(*optional)),
            Kind::Has { operand, field } => write!(f, "has({}.{field})", Inner(operand)),
            Kind::Index {
                operand,
                index,
                optional,
            } => write!(f, "{}[{}{index}]", Inner(operand), mark(*optional)),
            Kind::Unary { operator, operand } => match operator {
                Unary::Not => write!(f, "!{}", Inner(operand)),
                // `-1` would be the literal.
                Unary::Negate => write!(f, "-({operand})"),
            },
            Kind::Binary {
                operator,
                left,
                right,
            } => write!(f, "{} {} {}", Inner(left), operator.sign(), Inner(right)),
            Kind::Conditional { condition, yes, no } => {
                write!(f, "{} ? {} : {}", Inner(condition), Inner(yes), Inner(no))
            }
            Kind::Call {
                function,
                target,
                arguments,
            } => {
                if let Some(target) = target {
                    write!(f, "{}.", Inner(target))?;
                }
                write!(f, "{function}(")?;
                listed(f, arguments.iter())?;
                f.write_str(")")
            }
            Kind::List(elements) => {
                f.write_str("[")?;
                let element =
                    |(node, optional): &(Node, bool)| format!("{}{node}", mark(*optional));
                listed(f, elements.iter().map(element))?;
                f.write_str("]")
            }
            Kind::Map(entries) => {
                f.write_str("{")?;
                let entry =
                    |one: &Entry| format!("{}{}: {}", mark(one.optional), one.key, one.value);
                listed(f, entries.iter().map(entry))?;
                f.write_str("}")
            }
            Kind::Macro(inner) => inner.fmt(f),
        }
    }
}

fn mark(optional: bool) -> &'static str {
    if optional { "?" } else { "" }
}

fn listed(f: &mut Formatter<'_>, parts: impl Iterator<Item = impl Display>) -> fmt::Result {
    for (at, part) in parts.enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(f, "{comma}{part}")?;
    }
    Ok(())
}

/// A part of an expression, in parentheses where it is an operator's.
struct Inner<'a>(&'a Node);

impl Display for Inner<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let negative = matches!(
            self.0.kind,
            Kind::Literal(Literal::Int(i64::MIN..=-1) | Literal::Double(_))
        );
        match self.0.kind {
            Kind::Unary { .. } | Kind::Binary { .. } | Kind::Conditional { .. } => {
                write!(f, "({})", self.0)
            }
            _ if negative => write!(f, "({})", self.0),
            Kind::Literal(_)
            | Kind::Name(_)
            | Kind::Select { .. }
            | Kind::Has { .. }
            | Kind::Index { .. }
            | Kind::Call { .. }
            | Kind::List(_)
            | Kind::Map(_)
            | Kind::Macro(_) => self.0.fmt(f),
        }
    }
}

impl Display for Macro {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}({}",
            Inner(&self.range),
            self.kind.name(),
            self.name
        )?;
        if let Some(second) = &self.second {
            write!(f, ", {second}")?;
        }
        // The parser tells `filter(x, c)` from `map(x, c, x)` by nothing: both are the former.
        if let Some(condition) = self
            .condition
            .as_ref()
            .filter(|_| self.kind != MacroKind::Filter)
        {
            write!(f, ", {condition}")?;
        }
        write!(f, ", {})", self.body)
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => write!(f, "{value}u"),
            Self::Double(value) => write!(f, "{value:?}"),
            Self::String(text) => f.write_str(&crate::template::cel(text)),
            Self::Bytes(bytes) => {
                f.write_str("b\"")?;
                for byte in bytes {
                    write!(f, "\\x{byte:02x}")?;
                }
                f.write_str("\"")
            }
        }
    }
}

impl Display for Binary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.sign())
    }
}

#[cfg(test)]
mod tests {
    use crate::cel::ast::Node;
    use crate::cel::parse;

    /// The tree without its places, as text: what the places are is the parser's business.
    fn tree(node: &Node) -> String {
        let text = format!("{node:?}");
        let mut bare = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("Position {") {
            bare.push_str(before);
            rest = after.split_once('}').map_or("", |(_, rest)| rest);
        }
        bare + rest
    }

    #[track_caller]
    fn comes_back(source: &str) {
        let first = parse(source).expect("an expression");
        let text = first.to_string();
        let again = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(tree(&first), tree(&again), "{source}\n{text}");
    }

    #[test]
    fn every_form_of_expression_comes_back() {
        for source in [
            "1 + 2 * -3 - 4u % 5u",
            "-x.y + -(1) == 1.5 || 2.0 < 1e100",
            "!(a.b && (c || !d)) ? e : f ? g : h",
            "(a ? b : c) ? d : e",
            "a && b && c && d && e || f || g",
            "has(a.b.c) && a['x\\n\"'][0].d",
            "a.?b[?0].orValue('x')",
            "[1, ?a.?b, 'ü']",
            "{'a': 1, ?'b': c.?d}",
            "a.all(x, x > 0) && a.exists(k, v, k == v)",
            "a.map(x, x > 1, x + 1).filter(y, y in [1]).exists_one(z, z)",
            "a.map(x, x)",
            "a.optMap(v, v + 1).or(b.optFlatMap(v, v))",
            "a.transformMap(k, v, k != '', v)",
            "sets.contains([1], [2]) && b'a\\x00' != b''",
            "type(a) == string && size(a) == a.size() && null == a",
            "(a + b).size() > 0 && (-1).x",
        ] {
            comes_back(source);
        }
    }

    #[test]
    fn every_expression_of_the_fence_comes_back() {
        let mut count = 0;
        for tier in [
            decisions::session::Tier::Ground,
            decisions::session::Tier::Flight,
        ] {
            for policy in crate::fence::tests::policies(tier) {
                for (_, expression) in policy.expressions() {
                    comes_back(&expression.value);
                    count += 1;
                }
            }
        }
        assert!(count > 100, "{count}");
    }
}

//! An expression as a tree of our own, with the place of every node.
//!
//! Invariant: macros stand here as they are written (`all`, `map` …), not as the loops that the
//! parser makes of them, and the tree is at most [`super::scan::MAX_DEPTH`] deep, so that whoever
//! walks it may recurse.

/// A place in an expression's source: 1-based line and column, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl Position {
    /// The place of a byte of `source`; past its end, the place after its last character.
    #[must_use]
    pub fn of(source: &str, offset: usize) -> Self {
        let mut position = Self { line: 1, column: 1 };
        for (at, character) in source.char_indices() {
            if at >= offset {
                break;
            }
            position = position.after(character);
        }
        position
    }

    /// The place of each byte of `source`, and of its end.
    #[must_use]
    pub(super) fn all(source: &str) -> Vec<Self> {
        let mut positions = Vec::with_capacity(source.len() + 1);
        let mut position = Self { line: 1, column: 1 };
        for character in source.chars() {
            positions.extend(std::iter::repeat_n(position, character.len_utf8()));
            position = position.after(character);
        }
        positions.push(position);
        positions
    }

    fn after(self, character: char) -> Self {
        if character == '\n' {
            return Self {
                line: self.line + 1,
                column: 1,
            };
        }
        Self {
            column: self.column + 1,
            ..self
        }
    }
}

/// One node of an expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it is: of an operator and a selection the operator's sign or the dot, of a member
    /// call its parenthesis, of all else the first character.
    pub at: Position,
    /// What it is.
    pub kind: Kind,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `1`, `'a'`, `true`, `null` …
    Literal(Literal),
    /// A name: a variable of the request, or of a macro around it.
    Name(String),
    /// `operand.field`, or `operand.?field`.
    Select {
        /// What the field is selected of.
        operand: Box<Node>,
        /// The field.
        field: String,
        /// Whether it is `.?`.
        optional: bool,
    },
    /// `has(operand.field)`.
    Has {
        /// What the field is looked for in.
        operand: Box<Node>,
        /// The field.
        field: String,
    },
    /// `operand[index]`, or `operand[?index]`.
    Index {
        /// The list or map.
        operand: Box<Node>,
        /// The index or key.
        index: Box<Node>,
        /// Whether it is `[?…]`.
        optional: bool,
    },
    /// `!x` and `-x`.
    Unary {
        /// Which.
        operator: Unary,
        /// Its operand.
        operand: Box<Node>,
    },
    /// An operator with two operands. `&&` and `||` come as balanced trees, not left-deep.
    Binary {
        /// Which.
        operator: Binary,
        /// The left operand.
        left: Box<Node>,
        /// The right operand.
        right: Box<Node>,
    },
    /// `condition ? yes : no`.
    Conditional {
        /// What is asked.
        condition: Box<Node>,
        /// The value where it holds.
        yes: Box<Node>,
        /// The value where it does not.
        no: Box<Node>,
    },
    /// `function(…)` or `target.function(…)`. A function of a name space (`sets.contains(…)`) has
    /// the name space as its target, a [`Kind::Name`].
    Call {
        /// The function's name.
        function: String,
        /// What it is called on.
        target: Option<Box<Node>>,
        /// Its arguments, without the target.
        arguments: Vec<Node>,
    },
    /// `[a, ?b]`; each element with whether it is optional.
    List(Vec<(Node, bool)>),
    /// `{'a': b}`.
    Map(Vec<Entry>),
    /// A macro that binds names.
    Macro(Box<Macro>),
}

/// A scalar that is written out.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    UInt(u64),
    /// `1.0`
    Double(f64),
    /// `'text'`
    String(String),
    /// `b'bytes'`
    Bytes(Vec<u8>),
}

/// Operators with one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unary {
    /// `!`
    Not,
    /// `-`
    Negate,
}

/// Operators with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// `&&`
    And,
    /// `||`
    Or,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `in`
    In,
}

impl Binary {
    /// The sign as it is written.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::And => "&&",
            Self::Or => "||",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::In => "in",
        }
    }
}

/// One `key: value` of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: Node,
    /// The value.
    pub value: Node,
    /// Whether it is `?key: value`.
    pub optional: bool,
}

/// A macro: it binds one or two names and evaluates its body for each element of its range.
#[derive(Debug, Clone, PartialEq)]
pub struct Macro {
    /// Which.
    pub kind: MacroKind,
    /// What is gone through; of `optMap` and `optFlatMap`, the optional.
    pub range: Node,
    /// The first name: the element, or a map's key; with a second name, the index or key.
    pub name: String,
    /// The second name, of the forms with two.
    pub second: Option<String>,
    /// The condition of `map(x, condition, value)` and its like.
    pub condition: Option<Node>,
    /// What is evaluated.
    pub body: Node,
}

/// The macros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MacroKind {
    /// `all`
    All,
    /// `exists`
    Exists,
    /// `exists_one`, `existsOne`
    ExistsOne,
    /// `map`
    Map,
    /// `filter`
    Filter,
    /// `optMap`
    OptMap,
    /// `optFlatMap`
    OptFlatMap,
    /// `transformList`
    TransformList,
    /// `transformMap`
    TransformMap,
    /// `transformMapEntry`
    TransformMapEntry,
    /// `sortBy`
    SortBy,
}

impl MacroKind {
    /// The name as it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Exists => "exists",
            Self::ExistsOne => "exists_one",
            Self::Map => "map",
            Self::Filter => "filter",
            Self::OptMap => "optMap",
            Self::OptFlatMap => "optFlatMap",
            Self::TransformList => "transformList",
            Self::TransformMap => "transformMap",
            Self::TransformMapEntry => "transformMapEntry",
            Self::SortBy => "sortBy",
        }
    }
}

impl Node {
    /// The nodes right under this one, in the order in which they are written.
    #[must_use]
    pub fn children(&self) -> Vec<&Node> {
        match &self.kind {
            Kind::Literal(_) | Kind::Name(_) => Vec::new(),
            Kind::Select { operand, .. }
            | Kind::Has { operand, .. }
            | Kind::Unary { operand, .. } => vec![operand],
            Kind::Index { operand, index, .. } => vec![operand, index],
            Kind::Binary { left, right, .. } => vec![left, right],
            Kind::Conditional { condition, yes, no } => vec![condition, yes, no],
            Kind::Call {
                target, arguments, ..
            } => target.iter().map(Box::as_ref).chain(arguments).collect(),
            Kind::List(elements) => elements.iter().map(|(element, _)| element).collect(),
            Kind::Map(entries) => entries
                .iter()
                .flat_map(|entry| [&entry.key, &entry.value])
                .collect(),
            Kind::Macro(inner) => std::iter::once(&inner.range)
                .chain(&inner.condition)
                .chain([&inner.body])
                .collect(),
        }
    }

    /// The same nodes, to be changed.
    pub fn children_mut(&mut self) -> Vec<&mut Node> {
        match &mut self.kind {
            Kind::Literal(_) | Kind::Name(_) => Vec::new(),
            Kind::Select { operand, .. }
            | Kind::Has { operand, .. }
            | Kind::Unary { operand, .. } => vec![operand],
            Kind::Index { operand, index, .. } => vec![operand, index],
            Kind::Binary { left, right, .. } => vec![left, right],
            Kind::Conditional { condition, yes, no } => vec![condition, yes, no],
            Kind::Call {
                target, arguments, ..
            } => {
                let target = target.iter_mut().map(Box::as_mut);
                target.chain(arguments).collect()
            }
            Kind::List(elements) => elements.iter_mut().map(|(element, _)| element).collect(),
            Kind::Map(entries) => entries
                .iter_mut()
                .flat_map(|entry| [&mut entry.key, &mut entry.value])
                .collect(),
            Kind::Macro(inner) => std::iter::once(&mut inner.range)
                .chain(&mut inner.condition)
                .chain([&mut inner.body])
                .collect(),
        }
    }
}

/// The policy's variables that a tree reads, `variables.x`, and where.
#[must_use]
pub fn variables_read(tree: &Node) -> Vec<(&str, Position)> {
    let mut read = Vec::new();
    note_variables(tree, false, &mut read);
    read
}

/// `bound`: a macro around binds the name `variables` to something else.
fn note_variables<'n>(node: &'n Node, bound: bool, read: &mut Vec<(&'n str, Position)>) {
    if let Kind::Select { operand, field, .. } | Kind::Has { operand, field } = &node.kind
        && !bound
        && matches!(&operand.kind, Kind::Name(name) if name == "variables")
    {
        read.push((field, node.at));
    }
    let Kind::Macro(inner) = &node.kind else {
        let all = node.children().into_iter();
        return all.for_each(|child| note_variables(child, bound, read));
    };
    note_variables(&inner.range, bound, read);
    let hides = inner.name == "variables" || inner.second.as_deref() == Some("variables");
    for part in inner.condition.iter().chain([&inner.body]) {
        note_variables(part, bound || hides, read);
    }
}

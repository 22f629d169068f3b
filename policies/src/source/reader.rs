//! From the parser's events to a tree, on a stack of our own and within the bounds.

use super::{Node, Position, SourceError, Spanned, Value, limits, places};
use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, options};
use std::collections::{HashMap, HashSet};

pub(super) fn read(file: &str, bytes: &[u8]) -> Result<Vec<Node>, SourceError> {
    if bytes.len() > limits::BYTES {
        return Err(SourceError::TooLong {
            file: file.to_owned(),
            bytes: bytes.len(),
        });
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let at = end_of(&String::from_utf8_lossy(good));
            return Err(SourceError::NotUtf8 {
                file: file.to_owned(),
                at,
            });
        }
    };
    Reader::new(file, text).read()
}

fn end_of(text: &str) -> Position {
    let line = text.matches('\n').count() + 1;
    let column = text.chars().rev().take_while(|c| *c != '\n').count() + 1;
    Position {
        line: number(line),
        column: number(column),
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn position(marker: Marker) -> Position {
    Position {
        line: number(marker.line()),
        column: number(marker.col() + 1),
    }
}

/// A mapping or sequence that is not closed yet.
struct Open {
    at: Position,
    anchor: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Map {
        entries: Vec<(Spanned<String>, Node)>,
        key: Option<Spanned<String>>,
    },
}

/// A node that aliases may repeat, and what each repetition costs.
struct Anchored {
    node: Node,
    nodes: usize,
    bytes: usize,
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    documents: Vec<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    repeated: usize,
}

impl<'a> Reader<'a> {
    fn new(file: &'a str, text: &'a str) -> Self {
        let (documents, open) = (Vec::new(), Vec::new());
        Self {
            file,
            text,
            documents,
            open,
            anchors: HashMap::new(),
            nodes: 0,
            repeated: 0,
        }
    }

    fn read(mut self) -> Result<Vec<Node>, SourceError> {
        let mut started = 0;
        // Comments are presentation; a thousand of them are no reason to stop.
        let options = options! { emit_comments: false };
        for event in Parser::new_from_str_with_options(self.text, options) {
            let (event, span) = event.map_err(|error| self.syntax(&error))?;
            match event {
                Event::DocumentStart(..) => {
                    started += 1;
                    self.anchors.clear();
                    self.bound(
                        started,
                        limits::DOCUMENTS,
                        "documents",
                        position(span.start),
                    )?;
                }
                Event::Scalar(text, style, anchor, tag) => {
                    let forced = tag.is_some_and(|tag| tag.core_suffix() == Some("str"));
                    let node = self.scalar(text.into_owned(), style, forced, &span);
                    self.node(node, anchor)?;
                }
                Event::SequenceStart(_, anchor, _) => {
                    self.begin(Kind::List(Vec::new()), anchor, &span)?;
                }
                Event::MappingStart(_, anchor, _) => {
                    self.begin(
                        Kind::Map {
                            entries: Vec::new(),
                            key: None,
                        },
                        anchor,
                        &span,
                    )?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.end()?,
                Event::Alias(anchor) => self.repeat(anchor, position(span.start))?,
                // Starts and ends of the stream and its documents say nothing of a value.
                _ => {}
            }
        }
        self.documents
            .retain(|document| document.value != Value::Null);
        Ok(self.documents)
    }

    fn syntax(&self, error: &ScanError) -> SourceError {
        let at = position(*error.marker());
        SourceError::Syntax {
            file: self.file.to_owned(),
            at,
            what: error.info().to_owned(),
        }
    }

    fn bound(
        &self,
        count: usize,
        limit: usize,
        what: &'static str,
        at: Position,
    ) -> Result<(), SourceError> {
        if count <= limit {
            return Ok(());
        }
        Err(SourceError::TooMuch {
            file: self.file.to_owned(),
            at,
            limit,
            what,
        })
    }

    fn scalar(&self, text: String, style: ScalarStyle, forced: bool, span: &Span) -> Node {
        let at = position(span.start);
        let plain = style == ScalarStyle::Plain && !forced;
        let value = match plain.then(|| resolve(&text)).flatten() {
            Some(value) => value,
            None => Value::Text(places::placed(
                text,
                span.slice(self.text).unwrap_or_default(),
                style,
                at,
            )),
        };
        Node { at, value }
    }

    fn begin(&mut self, kind: Kind, anchor: usize, span: &Span) -> Result<(), SourceError> {
        let at = position(span.start);
        self.open.push(Open { at, anchor, kind });
        self.bound(
            self.open.len(),
            limits::DEPTH,
            "mappings and lists within each other",
            at,
        )
    }

    fn end(&mut self) -> Result<(), SourceError> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let value = match open.kind {
            Kind::List(items) => Value::List(items),
            Kind::Map { entries, .. } => {
                let entries = merged(entries);
                self.no_key_twice(&entries)?;
                Value::Map(entries)
            }
        };
        self.node(Node { at: open.at, value }, open.anchor)
    }

    fn no_key_twice(&self, entries: &[(Spanned<String>, Node)]) -> Result<(), SourceError> {
        let mut seen = HashSet::with_capacity(entries.len());
        let Some((key, _)) = entries
            .iter()
            .find(|(key, _)| !seen.insert(key.value.as_str()))
        else {
            return Ok(());
        };
        let first = entries.iter().find(|(other, _)| other.value == key.value);
        Err(SourceError::DuplicateKey {
            file: self.file.to_owned(),
            at: key.at,
            key: key.value.clone(),
            first: first.map_or(key.at, |(first, _)| first.at),
        })
    }

    /// A value is complete: it goes where it belongs.
    fn node(&mut self, node: Node, anchor: usize) -> Result<(), SourceError> {
        self.nodes += 1;
        self.bound(self.nodes, limits::NODES, "values", node.at)?;
        if anchor != 0 {
            let (nodes, bytes) = weigh(&node);
            // The copy that is kept for the aliases counts as a repetition of its own.
            self.spend(nodes, bytes, node.at)?;
            self.anchors.insert(
                anchor,
                Anchored {
                    node: node.clone(),
                    nodes,
                    bytes,
                },
            );
        }
        self.place(node)
    }

    fn place(&mut self, node: Node) -> Result<(), SourceError> {
        let is_key = matches!(
            self.open.last(),
            Some(Open {
                kind: Kind::Map { key: None, .. },
                ..
            })
        );
        let name = if is_key { Some(self.key(&node)?) } else { None };
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.documents.push(node),
            Some(Kind::List(items)) => items.push(node),
            Some(Kind::Map { entries, key }) => match key.take() {
                Some(key) => entries.push((key, node)),
                None => *key = name,
            },
        }
        Ok(())
    }

    fn key(&self, node: &Node) -> Result<Spanned<String>, SourceError> {
        let plain = |text: &str| Ok(Spanned::new(text.to_owned(), node.at));
        match &node.value {
            Value::Text(text) => Ok(text.clone()),
            Value::Null => plain("null"),
            Value::Bool(value) => plain(if *value { "true" } else { "false" }),
            Value::Int(value) => plain(&value.to_string()),
            Value::Float(value) => plain(&value.to_string()),
            Value::List(_) | Value::Map(_) => Err(SourceError::Syntax {
                file: self.file.to_owned(),
                at: node.at,
                what: format!("{} cannot be a key", node.value.kind()),
            }),
        }
    }

    fn repeat(&mut self, anchor: usize, at: Position) -> Result<(), SourceError> {
        // The parser refuses unknown names; a name within its own value has no value yet.
        let Some(known) = self.anchors.get(&anchor) else {
            return Err(SourceError::Syntax {
                file: self.file.to_owned(),
                at,
                what: "an alias within the value that it names".to_owned(),
            });
        };
        let (nodes, bytes) = (known.nodes, known.bytes);
        self.spend(nodes, bytes, at)?;
        let Some(node) = self.anchors.get(&anchor).map(|known| known.node.clone()) else {
            return Ok(());
        };
        self.place(node)
    }

    fn spend(&mut self, nodes: usize, bytes: usize, at: Position) -> Result<(), SourceError> {
        self.nodes += nodes;
        self.repeated += bytes;
        self.bound(self.nodes, limits::NODES, "values", at)?;
        self.bound(
            self.repeated,
            limits::REPEATED_BYTES,
            "bytes repeated by aliases",
            at,
        )
    }
}

/// Values and bytes of text within a node; its depth is bounded, so the recursion is.
fn weigh(node: &Node) -> (usize, usize) {
    let sum = |(nodes, bytes): (usize, usize), (n, b): (usize, usize)| (nodes + n, bytes + b);
    match &node.value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => (1, 0),
        Value::Text(text) => (1, text.value.len()),
        Value::List(items) => items.iter().map(weigh).fold((1, 0), sum),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, node)| sum(weigh(node), (0, key.value.len())))
            .fold((1, 0), sum),
    }
}

/// `<<: *defaults`: the keys of the defaults that the mapping does not name itself.
fn merged(entries: Vec<(Spanned<String>, Node)>) -> Vec<(Spanned<String>, Node)> {
    if entries.iter().all(|(key, _)| key.value != "<<") {
        return entries;
    }
    let (merges, mut own): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(key, _)| key.value == "<<");
    let mut named: HashSet<String> = own.iter().map(|(key, _)| key.value.clone()).collect();
    for (_, node) in merges {
        let sources = match node.value {
            Value::List(items) => items,
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => {
                Vec::new()
            }
            Value::Map(_) => vec![node],
        };
        for source in sources {
            let Value::Map(entries) = source.value else {
                continue;
            };
            own.extend(
                entries
                    .into_iter()
                    .filter(|(key, _)| named.insert(key.value.clone())),
            );
        }
    }
    own
}

/// What plain text is when it is not text.
fn resolve(text: &str) -> Option<Value> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Value::Null),
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return Some(Value::Bool(true));
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Some(Value::Bool(false));
        }
        _ => {}
    }
    let starts = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.');
    if !text.starts_with(starts) || !text.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if let Ok(number) = text.parse() {
        return Some(Value::Int(number));
    }
    let number: f64 = text.parse().ok()?;
    number.is_finite().then_some(Value::Float(number))
}

//! What is refused before the parser sees it.
//!
//! Invariant: the parser, and all that recurses over its tree, meets no text that could exhaust a
//! stack of 1 MiB, in a build without optimisation. The parser bounds the nesting of brackets
//! only; chains (`a+a+…`, `a.b.b…`) and conditionals (`a?b:c?d:…`) make trees just as deep.

use super::{CompileError, ast::Position};
use cel::parser::pratt_parser::{Lexer, Token, TokenKind};

/// The longest source in bytes; the API server takes 100,000 characters.
pub const MAX_SOURCE: usize = 100_000;
/// The most tokens of a source.
pub const MAX_TOKENS: usize = 20_000;
/// The deepest nesting of brackets.
pub const MAX_NESTING: usize = 48;
/// The deepest tree, counted as the chains and brackets around any token.
pub const MAX_DEPTH: usize = 150;

/// What is open at a token: one bracket, and the chains inside it.
#[derive(Default)]
struct Level {
    /// Links since the last `,`, `&&`, `||`, `?` or `:`.
    chain: usize,
    /// The longest of the chains on which the part since the last `,` may rest.
    conditionals: usize,
}

/// Measures a source without recursing.
pub(super) fn check(source: &str) -> Result<(), CompileError> {
    if source.len() > MAX_SOURCE {
        return Err(CompileError::limit_at_start(format!(
            "the expression has {} bytes; at most {MAX_SOURCE} are taken",
            source.len()
        )));
    }
    let mut lexer = Lexer::new(source);
    let mut levels = vec![Level::default()];
    let mut tokens = 0;
    // The chains of the levels that are open around the innermost one.
    let mut outer = 0;
    loop {
        let token = lexer.lex();
        match token.kind {
            TokenKind::TokEnd => return Ok(()),
            TokenKind::TokWhitespace | TokenKind::TokComment => continue,
            TokenKind::TokError => return Err(lexer_error(source, &lexer, token)),
            _ => {}
        }
        tokens += 1;
        if tokens > MAX_TOKENS {
            return Err(too_much(source, token, "parts", MAX_TOKENS));
        }
        step(token.kind, &mut levels, &mut outer);
        if levels.len() > MAX_NESTING {
            return Err(too_much(source, token, "nested brackets", MAX_NESTING));
        }
        let inner = levels
            .last()
            .map_or(0, |level| level.chain + level.conditionals);
        if outer + inner + levels.len() > MAX_DEPTH {
            return Err(too_much(source, token, "levels", MAX_DEPTH));
        }
    }
}

fn step(kind: TokenKind, levels: &mut Vec<Level>, outer: &mut usize) {
    if let Some(level) = levels.last_mut() {
        match kind {
            TokenKind::TokComma => *level = Level::default(),
            TokenKind::TokLogicalAnd | TokenKind::TokLogicalOr => level.chain = 0,
            // Also of `.?` and `[?`, where it counts a link too many.
            TokenKind::TokQuestion => level.conditionals += 1,
            // A conditional's branches, and a map's key and value, are beside one another.
            TokenKind::TokColon => level.chain = 0,
            TokenKind::TokIdent
            | TokenKind::TokTrue
            | TokenKind::TokFalse
            | TokenKind::TokNull
            | TokenKind::TokInt
            | TokenKind::TokUint
            | TokenKind::TokFloat
            | TokenKind::TokString
            | TokenKind::TokBytes
            | TokenKind::TokRightBracket
            | TokenKind::TokRightBrace
            | TokenKind::TokRightParen => {}
            _ => level.chain += 1,
        }
    }
    match kind {
        TokenKind::TokLeftBracket | TokenKind::TokLeftBrace | TokenKind::TokLeftParen => {
            *outer += levels
                .last()
                .map_or(0, |level| level.chain + level.conditionals);
            levels.push(Level::default());
        }
        TokenKind::TokRightBracket | TokenKind::TokRightBrace | TokenKind::TokRightParen
            if levels.len() > 1 =>
        {
            levels.pop();
            *outer -= levels
                .last()
                .map_or(0, |level| level.chain + level.conditionals);
        }
        _ => {}
    }
}

fn lexer_error(source: &str, lexer: &Lexer<'_>, token: Token) -> CompileError {
    let message = lexer
        .get_error()
        .map_or("this is no expression", |error| error.message.as_str());
    CompileError::new(
        format!("syntax error: {message}"),
        Position::of(source, token.start),
    )
}

fn too_much(source: &str, token: Token, what: &str, limit: usize) -> CompileError {
    CompileError::limit(
        format!("the expression has more than {limit} {what}, which is not taken"),
        Position::of(source, token.start),
    )
}

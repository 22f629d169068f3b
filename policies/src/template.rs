//! Templates, and values in place of their placeholders.
//!
//! Invariant: nothing from the configuration is written unquoted: a value can never become YAML or
//! CEL of its own. A placeholder without a value is an error of the build's tests.

use serde_json::Value;

const HEADER: &str = "\
# Rendered by `breakglass policies render`. Change the configuration and render again: what is
# changed here is found by `breakglass policies diff` and undone by the next rendering.
";

/// One rendered manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Its file's name, within the folder; files are applied in the order of their names.
    pub file_name: &'static str,
    /// Its text, ending in a line feed.
    pub text: String,
}

/// A manifest from its template.
pub(crate) fn rendered(
    file_name: &'static str,
    template: &str,
    values: &[(&str, &str)],
) -> Rendered {
    let text = format!("{HEADER}{}", filled(template, values));
    Rendered { file_name, text }
}

/// Puts `values` in place of their `{{name}}`, in one pass: a value that looks like a placeholder
/// stays what it is.
pub(crate) fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let placeholder = after.split_once("}}").and_then(|(name, tail)| {
            values
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value, tail))
        });
        match placeholder {
            Some((value, tail)) => {
                text.push_str(value);
                rest = tail;
            }
            None => {
                text.push_str("{{");
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

/// A JSON string, which every YAML reader takes for the same text.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A CEL string literal on one line, in characters that no YAML block takes for a line's end.
pub(crate) fn cel(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            ' '..='~' => literal.push(c),
            _ => literal.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    literal.push('"');
    literal
}

/// A CEL list of strings, in the order given.
pub(crate) fn cel_list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let literals: Vec<String> = texts.into_iter().map(cel).collect();
    format!("[{}]", literals.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cel_literal_is_one_line_of_ascii() {
        for (text, literal) in [
            ("a:b", r#""a:b""#),
            (r#"" || true || ""#, r#""\" || true || \"""#),
            (r"\", r#""\\""#),
            ("ü\u{2028}", r#""\U000000fc\U00002028""#),
            ("{{backend}}", r#""{{backend}}""#),
        ] {
            assert_eq!(cel(text), literal, "{text:?}");
        }
        assert_eq!(cel_list([]), "[]");
        assert_eq!(cel_list(["a", "b"]), r#"["a", "b"]"#);
    }

    #[test]
    fn a_value_that_looks_like_a_placeholder_stays() {
        let text = filled("{{a}} {{b}} {{c", &[("a", "{{b}}"), ("b", "2")]);
        assert_eq!(text, "{{b}} 2 {{c");
    }
}

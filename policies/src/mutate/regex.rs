//! Mutants of a regular expression's text, piece by piece.

/// Other patterns: without an anchor, with another count, class, end of a range, or an
/// alternative less. What comes out may be no pattern; then it is no mutant.
pub(super) fn patterns(pattern: &str) -> Vec<String> {
    let mut made = Vec::new();
    made.extend(pattern.strip_prefix('^').map(str::to_owned));
    made.extend(pattern.strip_suffix('$').map(str::to_owned));
    for (at, character) in pattern.char_indices() {
        let (before, rest) = pattern.split_at(at);
        let after = rest.get(character.len_utf8()..).unwrap_or_default();
        match character {
            '{' => made.extend(counts(before, after)),
            '*' | '?' => made.push(format!("{before}+{after}")),
            '+' => made.push(format!("{before}*{after}")),
            '[' if after.starts_with('^') => {
                made.push(format!("{before}[{}", after.get(1..).unwrap_or_default()));
            }
            '[' => made.extend(classes(before, after)),
            '|' => {
                let end = after.find([')', '|']).unwrap_or(after.len());
                made.push(format!("{before}{}", after.get(end..).unwrap_or_default()));
            }
            _ => {}
        }
    }
    made
}

/// `{12}` as `{11}`, `{13}` and `{12,}`.
fn counts(before: &str, after: &str) -> Vec<String> {
    let Some((count, rest)) = after.split_once('}') else {
        return Vec::new();
    };
    let Ok(count) = count.parse::<u32>() else {
        return Vec::new();
    };
    let less = count.saturating_sub(1);
    let others = [
        format!("{less}"),
        format!("{}", count + 1),
        format!("{count},"),
    ];
    others
        .iter()
        .map(|other| format!("{before}{{{other}}}{rest}"))
        .collect()
}

/// `[0-9a-z]` as `.`, and each of its ranges one shorter at its end.
fn classes(before: &str, after: &str) -> Vec<String> {
    let Some((class, rest)) = after.split_once(']') else {
        return Vec::new();
    };
    let mut made = vec![format!("{before}.{rest}")];
    let bytes = class.as_bytes();
    for at in 1..bytes.len().saturating_sub(1) {
        let (Some(b'-'), Some(last)) = (bytes.get(at), bytes.get(at + 1)) else {
            continue;
        };
        let (Some(head), Some(tail)) = (class.get(..=at), class.get(at + 2..)) else {
            continue;
        };
        let shorter = char::from(last.saturating_sub(1));
        made.push(format!("{before}[{head}{shorter}{tail}]{rest}"));
    }
    made
}

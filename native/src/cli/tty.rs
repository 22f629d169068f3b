//! The person's own terminal: raw while attached, restored whatever happens.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{IsTerminal, Stdin, stdin};

/// A terminal in raw mode; dropping it restores what was.
pub(super) struct Raw {
    input: Stdin,
    before: Termios,
}

impl Raw {
    /// Makes stdin raw, if it is a terminal.
    pub(super) fn enter() -> std::io::Result<Option<Self>> {
        let input = stdin();
        if !input.is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(&input)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&input, OptionalActions::Flush, &raw)?;
        Ok(Some(Self { input, before }))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.input, OptionalActions::Flush, &self.before);
    }
}

/// The size of the terminal that stdout is; `None` where it is none.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

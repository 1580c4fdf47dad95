//! What a key does.

use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchKey {
    /// To leave.
    Leave,
    /// The server above.
    Up,
    /// The server below.
    Down,
    /// To drain the chosen server; asks first.
    Drain,
    /// Yes, to that question.
    Yes,
    /// Anything else: no, to that question.
    Other,
}

/// None: no key was pressed.
pub(super) fn meaning(event: &Event) -> Option<WatchKey> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if control => WatchKey::Leave,
        KeyCode::Char('q') => WatchKey::Leave,
        KeyCode::Up | KeyCode::Char('k') => WatchKey::Up,
        KeyCode::Down | KeyCode::Char('j') => WatchKey::Down,
        KeyCode::Char('d') => WatchKey::Drain,
        KeyCode::Char('y') => WatchKey::Yes,
        _ => WatchKey::Other,
    })
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn control_c_leaves_and_c_does_not() {
        let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
        let c = KeyCode::Char('c');
        assert_eq!(meaning(&key(c, KeyModifiers::CONTROL)), Some(WatchKey::Leave));
        assert_eq!(meaning(&key(c, KeyModifiers::NONE)), Some(WatchKey::Other));
        assert_eq!(meaning(&key(KeyCode::Char('q'), KeyModifiers::NONE)), Some(WatchKey::Leave));
        assert_eq!(meaning(&Event::Resize(10, 10)), None);
    }
}

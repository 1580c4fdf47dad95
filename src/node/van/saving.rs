//! An operator reads the values of this server (`pslite save`): it asks the server itself, and is
//! answered over its own connection. Nothing of the job is touched by it.

use bytes::Bytes;

use super::Van;
use pslite_core::wire::save::SaveAsked;
use pslite_core::wire::word::{OperatorAnswer, Word};
use pslite_core::wire::{Control, Message, Meta, Role};

/// What is said where no store of ours has the values.
const NO_STORE: &str = "the values of this server are its application's own: pslite save reads \
    those of pslite's stores";

/// The question of an operator that a server answers.
fn question(meta: &Meta) -> Option<&Bytes> {
    match meta.control()?.word.as_deref()? {
        Word::Save(asked) => Some(asked),
        _ => None,
    }
}

/// True for a question of an operator that a server answers.
pub(super) fn asks(role: Role, meta: &Meta) -> bool {
    role == Role::Server && question(meta).is_some()
}

impl Van {
    /// The answer to a question of [`asks`].
    pub(super) fn saved(&self, meta: &Meta) -> Option<Message> {
        let asked = SaveAsked::read(question(meta)?.clone()).ok_or("the question is malformed");
        let told = asked.and_then(|asked| self.customers.saved(asked).ok_or(NO_STORE));
        let answer = told.map(|told| OperatorAnswer { text: String::new(), told: told.write() });
        Some(Message::control(Control::saying(Word::Told(answer.map_err(str::to_owned)))))
    }
}

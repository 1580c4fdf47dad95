//! An operator reads the values of this server (`pslite save`): it asks the server itself, and is
//! answered over its own connection. Nothing of the job is touched by it.

use super::Van;
use pslite_core::wire::elastic::{SchedulerMessage, SchedulerMessageKind};
use pslite_core::wire::save::{SaveAsked, SaveTold};
use pslite_core::wire::{Command, Control, EMPTY, Message, Meta, Role};

/// What is said where no store of ours has the values.
const NO_STORE: &str = "the values of this server are its application's own: pslite save reads \
    those of pslite's stores";

/// True for a question of an operator that a server answers.
pub(super) fn asks(role: Role, meta: &Meta) -> bool {
    let word = meta.control.as_ref().and_then(|control| control.word.as_ref());
    role == Role::Server && word.is_some_and(|word| word.kind == SchedulerMessageKind::Save as i32)
}

impl Van {
    /// The answer to a question of [`asks`].
    pub(super) fn saved(&self, meta: &Meta) -> Option<Message> {
        let word = meta.control.as_ref().and_then(|control| control.word.as_ref())?;
        let told = SaveAsked::read(word.told.clone()).map(|asked| self.customers.saved(asked));
        let kind = SchedulerMessageKind::Told as i32;
        let answer = match told {
            Some(Some(told)) => told_by(&told),
            refused => {
                let why = refused.map_or("the question is malformed", |_| NO_STORE);
                SchedulerMessage {
                    node: EMPTY,
                    text: why.to_owned(),
                    ..told_by(&SaveTold::default())
                }
            }
        };
        let word = SchedulerMessage { kind, ..answer };
        let mut control = Control::new(Command::Heartbeat);
        control.word = Some(Box::new(word));
        Some(Message::control(control))
    }
}

fn told_by(told: &SaveTold) -> SchedulerMessage {
    SchedulerMessage { told: told.write(), ..SchedulerMessage::default() }
}

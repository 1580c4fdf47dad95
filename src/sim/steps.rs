//! Deaths of servers at a named step: exactly before or after a message of one kind leaves a
//! process, or is handled there.

use pslite_core::wire::transfer::TransferKind;
use pslite_core::wire::word::Word;
use pslite_core::wire::{Message, Payload, Role};

/// What a message does for a job whose pieces move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// One server tells another about a piece, or a command.
    Transfer(TransferKind),
    /// The scheduler says a policy.
    Policy,
    /// It asks a server what it holds.
    Collect,
    /// A server says that.
    Claims,
    /// The scheduler orders moves.
    Orders,
    /// It lets a server go.
    Leave,
    /// Another word between the scheduler and another node.
    Word,
    /// A worker's push or pull.
    Request,
    /// Its answer.
    Answer,
}

impl Step {
    /// What a message does, if it is about pieces at all.
    #[must_use]
    pub fn of(message: &Message) -> Option<Self> {
        let meta = &message.meta;
        Some(match &meta.payload {
            Payload::Transfer(transfer) => Self::Transfer(transfer.kind()),
            Payload::Control(control) => match **control.word.as_ref()? {
                Word::Report { .. } => return None,
                Word::Policy { .. } => Self::Policy,
                Word::Collect { .. } => Self::Collect,
                Word::Claims(_) => Self::Claims,
                Word::Orders { .. } => Self::Orders,
                Word::Leave { .. } => Self::Leave,
                _ => Self::Word,
            },
            _ if meta.simple_app => return None,
            _ if meta.request => Self::Request,
            _ => Self::Answer,
        })
    }
}

/// When somebody dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeathAt {
    /// At which step.
    pub step: Step,
    /// The sender dies, not the receiver.
    pub sender: bool,
    /// After the message has left, or was handled; not before.
    pub after: bool,
    /// So many such steps pass before.
    pub skip: u32,
}

/// What a message means for who sends or handles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Lives,
    DiesBefore,
    DiesAfter,
}

/// Waits for the step at which somebody is to die.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    armed: Option<DeathAt>,
}

impl Steps {
    /// Somebody dies at that step, instead of at one that was armed before.
    pub(super) const fn arm(&mut self, death: DeathAt) {
        self.armed = Some(death);
    }

    /// Nobody dies any more.
    pub(super) const fn disarm(&mut self) {
        self.armed = None;
    }

    /// What a message means for a node that sends it, or gets it. Only servers die here.
    pub(super) fn fate(&mut self, role: Role, sends: bool, message: &Message) -> Fate {
        let Some(death) = &mut self.armed else { return Fate::Lives };
        let struck =
            role == Role::Server && death.sender == sends && Step::of(message) == Some(death.step);
        if !struck {
            return Fate::Lives;
        }
        if death.skip > 0 {
            death.skip -= 1;
            return Fate::Lives;
        }
        let after = death.after;
        self.armed = None;
        if after { Fate::DiesAfter } else { Fate::DiesBefore }
    }
}

//! Messages as one line each, for those who read a trace.

use std::fmt;

use pslite_core::wire::elastic::{Claim, KeyRoute, Mark, PartAsk, PartReply, Route};
use pslite_core::wire::transfer::{PieceCut, PieceName, RoundSum, Transfer, WrittenPiece};
use pslite_core::wire::trees::{Hop, Overlay, Ticket, TreeNode};
use pslite_core::wire::word::{ClaimWord, RoutedPolicy, Word};
use pslite_core::wire::{Control, Message, Meta, Payload};

/// A message, for people.
pub(super) struct Telling<'a>(pub(super) &'a Message);

impl fmt::Display for Telling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = &self.0.meta;
        write!(f, "from {}: ", meta.sender)?;
        match &meta.payload {
            Payload::Control(control) => tell_control(f, meta, control),
            Payload::Transfer(transfer) => tell_transfer(f, transfer),
            _ if meta.simple_app => {
                write!(f, "command {} ts {}", meta.head, meta.timestamp)?;
                tell_rest(f, meta)
            }
            _ => tell_values(f, meta),
        }
    }
}

/// Epoch and count of a term.
struct Term(u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0 >> 32, self.0 & u64::from(u32::MAX))
    }
}

fn tell_rest(f: &mut fmt::Formatter<'_>, meta: &Meta) -> fmt::Result {
    f.write_str(if meta.request { "" } else { " answered" })?;
    if meta.error.is_empty() { Ok(()) } else { write!(f, " with error {:?}", meta.error) }
}

fn tell_values(f: &mut fmt::Formatter<'_>, meta: &Meta) -> fmt::Result {
    let push = if meta.push { "push" } else { "" };
    let pull = if meta.pull { "pull" } else { "" };
    write!(f, "{push}{pull} ts {}", meta.timestamp)?;
    if let Some(ask) = meta.ask() {
        let PartAsk { slice, from, to, term, epoch, after, life, init, ahead, asks, .. } = ask;
        write!(f, " slice {slice} {from}..{to} term {} epoch {epoch}", Term(*term))?;
        if *after > 0 {
            write!(f, " after {}", after - 1)?;
        }
        tell_life(f, *life)?;
        f.write_str(if *init { " init" } else { "" })?;
        f.write_str(if *ahead { " ahead" } else { "" })?;
        f.write_str(if *asks { " ASKS" } else { "" })?;
        tell_ticket(f, ask.ticket.as_deref(), ask.overlay)?;
    }
    if let Some(reply) = meta.reply() {
        let PartReply { slice, from, to, term, epoch, again, routes, life, .. } = reply;
        write!(f, " slice {slice} {from}..{to} term {} epoch {epoch}", Term(*term))?;
        tell_life(f, *life)?;
        f.write_str(if *again { " AGAIN" } else { "" })?;
        routes.iter().try_for_each(|route| tell_route(f, route))?;
        tell_ticket(f, reply.ticket.as_deref(), reply.overlay)?;
    }
    if let Some(hop) = meta.hop() {
        let Hop { ticket, names, key, .. } = hop;
        write!(
            f,
            " {:?} key {key} by {}.{}/{}",
            Some(hop.kind()),
            ticket.overlay,
            ticket.tree,
            ticket.round
        )?;
        names.iter().try_for_each(|name| write!(f, " {}@{}", name.worker, name.timestamp))?;
    }
    tell_rest(f, meta)
}

fn tell_life(f: &mut fmt::Formatter<'_>, life: u64) -> fmt::Result {
    if life > 0 { write!(f, " life {life}") } else { Ok(()) }
}

fn tell_ticket(f: &mut fmt::Formatter<'_>, ticket: Option<&Ticket>, overlay: u64) -> fmt::Result {
    if let Some(ticket) = ticket {
        write!(f, " ticket {}.{}/{}", ticket.overlay, ticket.tree, ticket.round)?;
    }
    if overlay > 0 { write!(f, " overlay {overlay}") } else { Ok(()) }
}

fn tell_route(f: &mut fmt::Formatter<'_>, Route { from, to, term, owner }: &Route) -> fmt::Result {
    write!(f, " [{from}..{to} {} at {owner}]", Term(*term))
}

fn tell_transfer(f: &mut fmt::Formatter<'_>, transfer: &Transfer) -> fmt::Result {
    let Some(PieceName { key, from, to, term }) = transfer.piece() else {
        return write!(f, "{transfer:?}");
    };
    write!(f, "{:?} key {key} {from}..{to} term {}", transfer.kind(), Term(*term))?;
    match transfer {
        Transfer::Move(WrittenPiece { version, marks, .. })
        | Transfer::Seed(WrittenPiece { version, marks, .. })
        | Transfer::Round(RoundSum { version, marks, .. }) => tell_version(f, *version, marks),
        Transfer::Confirmed { version, .. } => tell_version(f, *version, &[]),
        Transfer::Cut(PieceCut { cuts, gone, .. }) => write!(f, " cuts {cuts:?} gone {gone:?}"),
        _ => Ok(()),
    }
}

fn tell_version(f: &mut fmt::Formatter<'_>, version: u64, marks: &[Mark]) -> fmt::Result {
    write!(f, " version {version}")?;
    marks.iter().try_for_each(|mark| write!(f, " {}@{}", mark.worker, mark.timestamp))
}

fn tell_control(f: &mut fmt::Formatter<'_>, meta: &Meta, control: &Control) -> fmt::Result {
    write!(f, "{:?}", control.command)?;
    if control.barrier_group != 0 {
        write!(f, " of {} ts {}", control.barrier_group, meta.timestamp)?;
        return tell_rest(f, meta);
    }
    if let Some(notice) = &control.notice {
        write!(f, " {:?} {} {:?}", notice.kind, notice.node, notice.text)?;
    }
    control.word.as_ref().map_or(Ok(()), |word| tell_word(f, word))
}

fn tell_word(f: &mut fmt::Formatter<'_>, word: &Word) -> fmt::Result {
    match word {
        Word::Policy { policy: RoutedPolicy { policy, routes }, .. } => {
            write!(f, " {policy:?}")?;
            tell_routes(f, routes)
        }
        Word::Routes { epoch, routes } => {
            write!(f, " Routes epoch {epoch}")?;
            tell_routes(f, routes)
        }
        Word::Claims(ClaimWord { epoch, claims, .. }) => {
            write!(f, " Claims epoch {epoch}")?;
            claims.iter().try_for_each(|claim| tell_claim(f, claim))
        }
        Word::Overlay { overlay, .. } => tell_overlay(f, overlay),
        other => write!(f, " {other:?}"),
    }
}

fn tell_routes(f: &mut fmt::Formatter<'_>, routes: &[KeyRoute]) -> fmt::Result {
    routes.iter().try_for_each(|KeyRoute { key, route }| {
        write!(f, " key {key}")?;
        tell_route(f, route)
    })
}

fn tell_overlay(f: &mut fmt::Formatter<'_>, overlay: &Overlay) -> fmt::Result {
    write!(f, " Overlay {} floor {}", overlay.number, overlay.floor)?;
    for tree in &overlay.trees {
        write!(f, " [root {}", tree.root)?;
        let node = |node: &TreeNode| format!(" {}^{}v{}", node.node, node.up, node.down);
        tree.nodes.iter().try_for_each(|it| f.write_str(&node(it)))?;
        f.write_str("]")?;
    }
    Ok(())
}

fn tell_claim(f: &mut fmt::Formatter<'_>, claim: &Claim) -> fmt::Result {
    let Claim { key, from, to, term, version, peer, .. } = claim;
    let safe = if claim.safe { " safe" } else { "" };
    let held = claim.holding();
    write!(f, " [{held:?} {key} {from}..{to} {} version {version}{safe}", Term(*term))?;
    if *peer != 0 { write!(f, " peer {peer}]") } else { f.write_str("]") }
}

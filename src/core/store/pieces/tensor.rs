//! One tensor of the server, as pieces: ranges of elements, or of rows, each with its value and its
//! round. The whole is what lies under one wire key; a server may hold all pieces of it, some, or
//! none. May touch what belongs to a piece; must not know other servers.

use std::ops::Range;

use pslite_elements::precision;
use pslite_optimizers::State;

use super::contribution::Pushes;
use super::marks::Marks;
use super::name::Name;
use super::round::Round;
use super::sums::Sum;
use crate::invariant::{Valid, require};
use crate::store::error::StoreError;
use crate::values::value::Value;
use crate::values::{Allocator, Buffer, Dtype, KeyPart};
use crate::wire::transfer::PieceName;
use crate::wire::trees::Ticket;
use crate::wire::{EMPTY, Key, NodeId};

/// Where a piece may be cut: a compressed word has that many elements, and a cut goes between
/// words.
pub(in crate::store) const ALIGN: u64 = 16;

/// How a piece's elements are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Layout {
    /// In one row.
    Dense,
    /// In rows of that many elements, which are pushed and pulled one by one.
    Rows { row_len: usize },
}

impl Layout {
    /// That of a push of rows that fits: a dense one becomes any.
    pub(in crate::store) const fn as_rows(self) -> Self {
        match self {
            Self::Dense => Self::Rows { row_len: 1 },
            rows @ Self::Rows { .. } => rows,
        }
    }
}

/// The elements, or rows, from `from` up to `to` of a tensor. One without any has a place all the
/// same, from 0 to 1: what has no place nobody could claim, copy or find.
#[derive(Debug)]
pub(in crate::store) struct Piece {
    pub(in crate::store) from: u64,
    pub(in crate::store) to: u64,
    pub(in crate::store) dtype: Dtype,
    pub(in crate::store) layout: Layout,
    /// What pulls get.
    pub(in crate::store) value: Value,
    /// What the optimizer works on instead, where that is of higher precision.
    pub(in crate::store) master: Option<Buffer>,
    /// What the optimizer keeps for it.
    pub(in crate::store) state: Option<Box<State>>,
    /// Rounds that were applied.
    pub(in crate::store) version: u64,
    pub(in crate::store) round: Round,
    /// How often it changed its owner or its borders (docs/elastic.md).
    pub(in crate::store) term: u64,
    /// The last push of each customer that counted.
    pub(in crate::store) marks: Marks,
    /// What its replica has.
    pub(in crate::store) copied: Copied,
    /// What the replica before has, until it has forgotten it.
    pub(in crate::store) former_copy: Option<FormerCopy>,
    /// Who keeps a copy, as it was, until it has heard that this one is safe.
    pub(in crate::store) source: Option<Source>,
    /// The last ticket that was given out (`elastic::tickets`).
    given: Option<Box<GivenTicket>>,
}

/// A ticket that was given out.
#[derive(Clone, Copy, Debug)]
struct GivenTicket {
    ticket: Ticket,
    /// It is used up, or void: nothing goes by it any more.
    over: bool,
    /// The customer of each worker that it is for.
    customer: i32,
}

/// The former owner of a piece that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Source {
    pub(in crate::store) server: NodeId,
    /// It was told that the piece has come, and has not said yet that it knows.
    pub(in crate::store) told: bool,
}

/// What the replica has of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) enum Copied {
    /// Nothing.
    #[default]
    Not,
    /// All that was sent there, first under the term `since`; it said that it has that version, if
    /// it said anything.
    Sent { to: NodeId, since: u64, confirmed: Option<u64> },
}

impl Copied {
    /// Who has it, or is to have it.
    pub(in crate::store) const fn at(self) -> Option<NodeId> {
        match self {
            Self::Not => None,
            Self::Sent { to, .. } => Some(to),
        }
    }
}

/// A copy at a server that was the replica before, after the piece was sent to another one: it gets
/// no more rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct FormerCopy {
    pub(in crate::store) at: NodeId,
    /// The term under which it was sent first.
    pub(in crate::store) since: u64,
    /// The version that it said it has.
    pub(in crate::store) confirmed: Option<u64>,
    /// That server was told to forget it.
    pub(in crate::store) dropped: bool,
}

/// A tensor, or this server's part of it.
#[derive(Debug, Default)]
pub(in crate::store) struct Tensor {
    /// Elements, or rows, of the whole; 1 if there are none.
    pub(in crate::store) length: u64,
    /// In the order of their places.
    pub(in crate::store) pieces: Vec<Piece>,
}

/// Whether the rounds of a piece can take some pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Entry {
    /// They can: in the open round, in a later one, or as what has counted before.
    Open,
    /// One of them has overtaken the push before it, which went to a former owner.
    TooSoon,
    /// Some of them are here and others are not, or some are of the open round and others of a
    /// later one: the sum counts for all of them or for none.
    Overlaps,
}

impl Piece {
    pub(in crate::store) fn new(value: Buffer, dtype: Dtype, layout: Layout) -> Self {
        let elements = value.len() / dtype.size();
        let length = match layout {
            Layout::Dense => elements,
            Layout::Rows { row_len } => elements.checked_div(row_len).unwrap_or(0),
        };
        Self {
            from: 0,
            to: (length as u64).max(1),
            dtype,
            layout,
            value: Value::new(value),
            master: None,
            state: None,
            version: 0,
            round: Round::default(),
            term: 1,
            marks: Marks::default(),
            copied: Copied::Not,
            former_copy: None,
            source: None,
            given: None,
        }
    }

    /// How other servers know it.
    pub(in crate::store) const fn name(&self, key: Key) -> PieceName {
        PieceName { key, from: self.from, to: self.to, term: self.term }
    }

    /// The float32 copy that a multi-precision server works on, of a value of another type.
    pub(in crate::store) fn make_master(&mut self) {
        if self.dtype != Dtype::F32 && self.master.is_none() {
            self.master = Some(precision::to_f32(self.dtype, self.value.buffer().bytes()));
        }
    }

    /// By which tree the open round goes, or the next one, if by any.
    pub(in crate::store) fn ticket(&self) -> Option<Ticket> {
        self.given.as_deref().filter(|given| !given.over).map(|given| given.ticket)
    }

    /// It goes by that one, which is for that customer of each worker of its tree.
    pub(in crate::store) fn set_ticket(&mut self, ticket: Ticket, customer: i32) {
        self.give(GivenTicket { ticket, over: false, customer });
    }

    /// It goes by no tree: the last ticket means nothing any more, and is not given out again.
    pub(in crate::store) fn end_ticket(&mut self) {
        if let Some(given) = &mut self.given {
            given.over = true;
        }
    }

    /// No ticket up to that one is given out any more.
    pub(in crate::store) fn withhold(&mut self, last: Ticket) {
        self.give(GivenTicket { ticket: last, over: true, customer: EMPTY });
    }

    fn give(&mut self, given: GivenTicket) {
        match &mut self.given {
            Some(before) => **before = given,
            None => self.given = Some(Box::new(given)),
        }
    }

    /// It has come from another server, which may have given out a ticket for this round. So none
    /// is given out here before the next one.
    pub(in crate::store) fn has_come(&mut self) {
        self.withhold(Ticket { overlay: u64::MAX, tree: 0, round: self.version + 1 });
    }

    /// True if its borders and its owner are those with which it was made.
    pub(in crate::store) const fn was_made_here(&self) -> bool {
        self.term as u32 == 1
    }

    /// True if that ticket is newer than all that were given out.
    pub(in crate::store) fn may_give(&self, ticket: &Ticket) -> bool {
        self.given.as_ref().is_none_or(|given| given.ticket.is_before(ticket))
    }

    /// The customer that its ticket is for.
    pub(in crate::store) fn ticket_customer(&self) -> i32 {
        self.given.as_ref().map_or(EMPTY, |given| given.customer)
    }

    /// True if a replica gets what is done to it.
    pub(in crate::store) fn is_copied(&self) -> bool {
        self.copied != Copied::Not
    }

    /// True if the replica has all that was answered.
    pub(in crate::store) const fn is_safe(&self) -> bool {
        matches!(self.copied, Copied::Sent { confirmed: Some(_), .. })
    }

    /// Whether its rounds can take these pushes.
    pub(in crate::store) fn entry(&self, pushes: &Pushes) -> Entry {
        let counted = |name: &Name| self.marks.count(name);
        if let Pushes::One(push) = pushes {
            let name = Name::of(push);
            let goes = self.is_next(&name) || counted(&name);
            return if goes { Entry::Open } else { Entry::TooSoon };
        }
        let is_known = |name: &Name| counted(name) || self.round.holds(name.who, name.timestamp);
        let in_round = |name: &Name| self.round.has_one_of(name.who);
        let of = |is: &dyn Fn(&Name) -> bool| pushes.names().filter(|name| is(name)).count();
        let (all, known, early) = (pushes.count(), of(&is_known), of(&in_round));
        if known == all {
            // It is answered as a duplicate, at once or when they have counted.
            Entry::Open
        } else if known > 0 || (0 < early && early < all) {
            Entry::Overlaps
        } else if of(&|name| self.is_next(name)) == all {
            Entry::Open
        } else {
            Entry::TooSoon
        }
    }

    /// True if it has got what the same customer pushed to it before that push.
    pub(in crate::store) fn is_next(&self, push: &Name) -> bool {
        self.marks.count_before(push)
            || push.before().is_some_and(|before| self.round.holds(push.who, before))
    }

    /// True if pushes that made that version must not be answered yet: the replica may not have it,
    /// or the piece is kept elsewhere, as it was before, in case this server and its replica die.
    pub(in crate::store) fn withholds(&self, version: u64) -> bool {
        let confirmed =
            matches!(self.copied, Copied::Sent { confirmed: Some(has), .. } if has >= version);
        let unconfirmed = self.copied != Copied::Not && !confirmed;
        unconfirmed || self.has_older_copy(version)
    }

    /// True if its former owner, or a former replica, has a copy that may be older than that
    /// version.
    pub(in crate::store) fn has_older_copy(&self, version: u64) -> bool {
        self.source.is_some()
            || self.former_copy.is_some_and(|former| former.confirmed < Some(version))
    }

    /// The copy at that server is to become, or to have been, a former one.
    pub(in crate::store) fn former(&self, dropped: bool) -> Option<FormerCopy> {
        let Copied::Sent { to, since, confirmed } = self.copied else { return self.former_copy };
        self.former_copy.or(Some(FormerCopy { at: to, since, confirmed, dropped }))
    }

    /// A server says that its copy has that version. False if it cannot mean this piece: what is
    /// said under a term before that of the seed is about an earlier time at which the piece was
    /// here. A version that this piece never had counts as the newest one.
    pub(in crate::store) fn confirm(&mut self, server: NodeId, term: u64, version: u64) -> bool {
        let version = version.min(self.version);
        match (&mut self.copied, &mut self.former_copy) {
            (Copied::Sent { to, since, confirmed }, _) if *to == server && *since <= term => {
                *confirmed = Some(version).max(*confirmed);
                true
            }
            (_, Some(former)) if former.at == server && former.since <= term => {
                former.confirmed = Some(version).max(former.confirmed);
                true
            }
            _ => false,
        }
    }

    /// Its parts between `cuts`, which lie within it in ascending order. It must be dense, and
    /// nobody may have pushed to its round.
    pub(in crate::store) fn cut(self, cuts: &[u64], maker: Option<&dyn Allocator>) -> Vec<Self> {
        let begins = std::iter::once(self.from).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain(std::iter::once(self.to));
        begins.zip(ends).map(|(from, to)| self.part(from, to, maker)).collect()
    }

    /// A copy of the elements, or rows, from `from` up to `to`, which lie within it.
    pub(in crate::store) fn part(&self, from: u64, to: u64, maker: Option<&dyn Allocator>) -> Self {
        let unit = match self.layout {
            _ if self.is_empty() => 0,
            Layout::Dense => 1,
            Layout::Rows { row_len } => row_len,
        };
        let elements = (from - self.from) as usize * unit..(to - self.from) as usize * unit;
        let size = self.dtype.size();
        let bytes = elements.start * size..elements.end * size;
        let master = self.master.as_ref().map(|master| {
            let size = Dtype::F32.size();
            Buffer::copy_of(&master.bytes()[elements.start * size..elements.end * size])
        });
        Self {
            from,
            to,
            dtype: self.dtype,
            layout: self.layout,
            value: Value::new(Buffer::copy_in(maker, &self.value.buffer().bytes()[bytes])),
            master,
            state: self.state.as_ref().map(|state| Box::new(state.part(elements))),
            version: self.version,
            round: Round::default(),
            term: self.term,
            marks: self.marks.clone(),
            copied: self.copied,
            former_copy: self.former_copy,
            source: self.source,
            given: self.given.as_ref().map(|given| Box::new(GivenTicket { over: true, ..**given })),
        }
    }

    /// Its elements, of that key.
    pub(in crate::store) const fn of_key(&self, key: Key) -> KeyPart {
        KeyPart { key, from: self.from, to: self.to }
    }

    /// Elements or rows.
    pub(in crate::store) fn length(&self) -> usize {
        if self.is_empty() { 0 } else { (self.to - self.from) as usize }
    }

    /// True if it has no element.
    fn is_empty(&self) -> bool {
        self.value.buffer().is_empty()
    }

    /// Bytes of memory that it holds, open rounds apart.
    pub(in crate::store) fn bytes(&self) -> usize {
        self.value.buffer().len() + self.master.as_ref().map_or(0, Buffer::len)
    }

    /// Bytes of what the optimizer keeps for it.
    pub(in crate::store) fn state_bytes(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.bytes())
    }

    /// Without an optimizer the sum takes the place of the value.
    pub(in crate::store) fn replace(&mut self, sum: Sum, dtype: Dtype) -> Result<(), StoreError> {
        match self.layout {
            Layout::Dense => self.replace_all(sum, dtype)?,
            Layout::Rows { row_len } => self.replace_rows(sum, dtype, row_len)?,
        }
        self.master_to_value();
        Ok(())
    }

    fn replace_all(&mut self, sum: Sum, dtype: Dtype) -> Result<(), StoreError> {
        match (&mut self.master, sum) {
            (None, Sum::Dense(sum)) if sum.len() == self.value.buffer().len() => {
                self.value = Value::new(sum);
                Ok(())
            }
            (None, Sum::Shared(sum)) if sum.buffer().len() == self.value.buffer().len() => {
                self.value = sum;
                Ok(())
            }
            (None, sum) => sum.write(dtype, self.value.overwrite()),
            (Some(master), sum) => sum.write(dtype, master),
        }
    }

    /// Rows that nobody pushed are zero then: a row_sparse array has no others.
    fn replace_rows(&mut self, sum: Sum, dtype: Dtype, row_len: usize) -> Result<(), StoreError> {
        let (rows, values) = sum.rows(dtype)?;
        let target = match &mut self.master {
            Some(master) => master,
            None => self.value.overwrite(),
        };
        target.bytes_mut().fill(0);
        let size = row_len * dtype.size();
        for (i, row) in rows.iter().enumerate() {
            let at = *row as usize * size;
            target.bytes_mut()[at..at + size]
                .copy_from_slice(&values.bytes()[i * size..(i + 1) * size]);
        }
        Ok(())
    }

    pub(in crate::store) fn master_to_value(&mut self) {
        if let Some(master) = &self.master {
            precision::from_f32(master, self.dtype, self.value.overwrite());
        }
    }

    /// What a piece promises, wherever it is kept.
    pub(in crate::store) fn validate(&self) -> Valid {
        let unit = match self.layout {
            Layout::Dense => 1,
            Layout::Rows { row_len } => row_len,
        };
        let (bytes, elements) = (self.value.buffer().len(), self.length() * unit);
        require(bytes == elements * self.dtype.size(), || {
            format!("{bytes} bytes are the value of {elements} elements of {:?}", self.dtype)
        })?;
        let master = self.master.as_ref().map(|master| master.len());
        require(master.is_none_or(|bytes| bytes == elements * size_of::<f32>()), || {
            format!("{master:?} bytes are the float32 copy of {elements} elements")
        })?;
        self.marks.validate()?;
        self.validate_replicas()
    }

    fn validate_replicas(&self) -> Valid {
        let former = self.former_copy;
        if let Copied::Sent { to, since, confirmed } = self.copied {
            require(confirmed <= Some(self.version), || {
                format!("{to} has version {confirmed:?} of {}", self.version)
            })?;
            require(since <= self.term, || {
                format!("{to} has had it since term {since}, and it has term {}", self.term)
            })?;
            require(former.is_none_or(|former| former.at != to), || {
                format!("{to} is its replica, and was that before")
            })?;
        }
        require(former.is_none_or(|former| former.confirmed <= Some(self.version)), || {
            format!("the former copy {former:?} is newer than version {}", self.version)
        })
    }
}

impl Tensor {
    pub(in crate::store) fn whole(piece: Piece) -> Self {
        Self { length: piece.to, pieces: vec![piece] }
    }

    /// Where its only piece is, if that is all of it.
    pub(in crate::store) fn whole_piece(&self) -> Option<usize> {
        match &self.pieces[..] {
            [piece] if piece.from == 0 && piece.to == self.length => Some(0),
            _ => None,
        }
    }

    /// Where the piece with exactly these borders is.
    pub(in crate::store) fn exactly(&self, from: u64, to: u64) -> Option<usize> {
        self.pieces.iter().position(|piece| piece.from == from && piece.to == to)
    }

    /// Where the pieces are that lie within `[from, to)`; `to` 0: all.
    pub(in crate::store) fn within(&self, from: u64, to: u64) -> Range<usize> {
        let to = if to == 0 { u64::MAX } else { to };
        let first = self.pieces.partition_point(|piece| piece.from < from);
        let end = self.pieces.partition_point(|piece| piece.to <= to);
        first..end.max(first)
    }

    /// Where the piece is that begins there.
    pub(in crate::store) fn begins_at(&self, from: u64) -> Option<usize> {
        self.pieces.binary_search_by_key(&from, |piece| piece.from).ok()
    }

    /// The piece in which all elements from `from` up to `to` lie, and more.
    pub(in crate::store) fn containing(&self, from: u64, to: u64) -> Option<(usize, &Piece)> {
        let mut pieces = self.pieces.iter().enumerate();
        pieces.find(|(_, piece)| piece.from <= from && from < to && to <= piece.to)
    }

    /// Takes a piece in, at its place.
    pub(in crate::store) fn insert(&mut self, piece: Piece) {
        let at = self.pieces.partition_point(|other| other.from < piece.from);
        self.pieces.insert(at, piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server may hold very many small ones.
    #[test]
    fn a_piece_at_rest_takes_little_memory() {
        assert!(size_of::<Piece>() <= 216, "{}", size_of::<Piece>());
    }
}

//! MXNet's server (kvstore_dist_server.h), without MXNet: what it does with each push, pull and
//! command.
//!
//! May touch `wire` types; the store's owner sends the answers. One call at a time: whoever owns a
//! store locks it. `apply` has rounds and updates, `rows` what is about row_sparse arrays,
//! `hand_over` what is about another server that takes over, `waits` which rounds wait. Where this
//! differs from MXNet is said at the place, and in docs/divergences.md.
//!
//! A push asks [`super::moving`] once where its piece is (`Mover::find`), and when its round is
//! over that is said there once (`Mover::round_over`), whether pieces move or not.

pub(super) mod apply;
mod hand_over;
mod rows;
mod sparse;
mod waits;

use bytes::Bytes;

use super::command::modes::space_of;
use super::error::StoreError;
use super::holdings::At;
use super::moving::ToServe;
use super::outbound::{Answer, Outbound, refused};
use super::pieces::limits::TENSORS_MAX;
use super::pieces::tensor::{Layout, Piece, Tensor};
use super::state::Store;
use crate::store::pieces::sums::Addend;
use crate::values::compression::{Compression, TwoBit};
use crate::values::kind::{RequestKind, kind_of};
use crate::values::{Buffer, Dtype, KEY_SIZE, is_whole_and_cut, key_at};
use crate::wire::{Key, Meta, id_to_rank, server_id};

/// Bytes of one value; MXNet's lengths are 32-bit.
const BYTES_MAX: usize = i32::MAX as usize;

/// One request's frames, checked.
struct RequestFrames {
    keys: Bytes,
    vals: Bytes,
    lens: Vec<usize>,
}

/// What a request is about.
#[derive(Clone, Copy, Debug)]
struct RequestTarget {
    key: Key,
    /// `None`: the push makes the key.
    at: Option<At>,
}

impl Store {
    /// Serves a push, a pull, or both in one, of a job whose pieces do not move. The answers that
    /// are due now, of earlier requests too.
    pub fn request(&mut self, request: Meta, frames: &[Bytes], answers: &mut Vec<Answer>) {
        let mut out = Outbound { answers: std::mem::take(answers), ..Outbound::default() };
        self.serve(request, frames, &mut out);
        *answers = out.answers;
    }

    /// Serves a push, a pull, or both in one. What is due now: answers, of earlier requests too,
    /// and transfers.
    pub fn serve(&mut self, request: Meta, frames: &[Bytes], out: &mut Outbound) {
        self.serve_now(request, frames, out);
        // Its parts may be what others wait for.
        if let Some(key) = self.known.cut.take() {
            self.serve_parked(key, out);
        }
        self.look_at_request(frames);
    }

    /// Looks again at what was parked for a key; and once more if one of these requests has cut a
    /// piece, for those before it. That ends, since a key has only so many pieces.
    fn serve_parked(&mut self, key: Key, out: &mut Outbound) {
        loop {
            self.known.cut = None;
            for (request, frames) in self.known.parked.take(key) {
                self.serve_now(request, &frames, out);
            }
            if self.known.cut != Some(key) {
                return;
            }
        }
    }

    /// Looks again at what waited for what has come.
    pub(super) fn serve_due(&mut self, out: &mut Outbound) {
        for key in std::mem::take(&mut self.known.due) {
            self.serve_parked(key, out);
        }
    }

    /// The same of all that is parked.
    pub(super) fn serve_all_parked(&mut self, out: &mut Outbound) {
        for key in self.known.parked.keys() {
            self.serve_parked(key, out);
        }
    }

    /// The same in the middle of something else.
    fn serve_now(&mut self, request: Meta, frames: &[Bytes], out: &mut Outbound) {
        let meta = request.clone();
        if let Err(error) = self.try_serve(request, frames, out) {
            self.whereabouts().answer(refused(meta, &error), out);
        }
    }

    fn try_serve(
        &mut self,
        request: Meta,
        raw: &[Bytes],
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        if request.hop().is_none() && self.whereabouts().is_of_the_dead(&request) {
            return Ok(());
        }
        let (kind, dtype) = kind_of(request.head)?;
        self.held.check_exchanged(kind, request.push)?;
        let frames = RequestFrames::read(raw)?;
        let compressed = kind == RequestKind::Compressed && request.push;
        let key = self.key(&frames.keys, usize::from(compressed))?;
        self.check_space(key, &request)?;
        let misfit = self.misfit(key, kind, &request);
        let Some(ToServe { request, at }) = self.mover(out).find(key, request, raw, misfit)? else {
            return Ok(());
        };
        let target = RequestTarget { key, at };
        match (kind, request.push) {
            (RequestKind::RowSparse, true) => self.push_rows(request, &frames, dtype, target, out),
            (RequestKind::RowSparse, false) => self.pull_rows(request, &frames, dtype, target, out),
            (RequestKind::Compressed, true) => self.push_compressed(request, &frames, target, out),
            (RequestKind::Default, true) => self.push_dense(request, &frames, dtype, target, out),
            (_, false) => {
                let at = self.known(target)?;
                let answer = self.held.pull(request, &frames.keys, at)?;
                self.whereabouts().deliver(key, answer, out);
                Ok(())
            }
        }
    }

    // ---- dense ---------------------------------------------------------------------------------

    /// DataHandleDefault.
    fn push_dense(
        &mut self,
        request: Meta,
        frames: &RequestFrames,
        dtype: Dtype,
        target: RequestTarget,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        if frames.lens.len() != 1 || frames.lens[0] != frames.vals.len() {
            return Err(StoreError::Malformed("a push has one key, one length and as many bytes"));
        }
        if !frames.vals.len().is_multiple_of(dtype.size()) {
            return Err(StoreError::Malformed("a value is no whole number of elements"));
        }
        let Some(at) = target.at else {
            let piece = Piece::new(self.held.copy(&frames.vals), dtype, Layout::Dense);
            return self.init(target.key, piece, request, out);
        };
        let fits = self.check(at, &request, Layout::Dense, dtype, Some(frames.vals.len()));
        let addend = fits.map(|()| Addend::Dense(frames.vals.clone()));
        self.push(at, request, Addend::of(addend), out)
    }

    /// DataHandleCompressed.
    fn push_compressed(
        &mut self,
        request: Meta,
        frames: &RequestFrames,
        target: RequestTarget,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let &[0, size] = &frames.lens[..] else {
            return Err(StoreError::Malformed("a compressed push has two keys, the first empty"));
        };
        if size != frames.vals.len() {
            return Err(StoreError::Malformed("a length is not that of the value"));
        }
        // The first key is no key, but how many elements there were before they were compressed.
        let elements = key_at(&frames.keys, 0)
            .and_then(|count| count.checked_sub(self.held.view.begin(target.key)))
            .and_then(|elements| usize::try_from(elements).ok())
            .filter(|elements| *elements <= BYTES_MAX / Dtype::F32.size())
            .ok_or(StoreError::Malformed("the length of a compressed push is out of range"))?;
        let Compression::TwoBit(compression) = self.held.mode(target.key).compression else {
            return Err(StoreError::Malformed("a compressed push, and no compression was set"));
        };
        if frames.vals.len() != TwoBit::compressed_bytes(elements) {
            return Err(StoreError::Malformed(
                "the length of a compressed push is not its value's",
            ));
        }
        let mut gradient = Buffer::zeroed(elements * Dtype::F32.size());
        compression.decompress(&frames.vals, gradient.elements_mut())?;
        let Some(at) = target.at else {
            let piece = Piece::new(self.held.copy(gradient.bytes()), Dtype::F32, Layout::Dense);
            return self.init(target.key, piece, request, out);
        };
        let fits = self.check(at, &request, Layout::Dense, Dtype::F32, Some(gradient.len()));
        let addend = fits.map(|()| Addend::Dense(gradient.into_bytes()));
        self.push(at, request, Addend::of(addend), out)
    }

    // ---- all kinds -----------------------------------------------------------------------------

    /// The first push of a key: its value.
    fn init(
        &mut self,
        key: Key,
        mut piece: Piece,
        request: Meta,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        if self.held.tensors.len() >= TENSORS_MAX {
            return Err(StoreError::Full(TENSORS_MAX));
        }
        if self.held.mode(key).widens(piece.dtype) {
            piece.make_master();
        }
        self.held.tensors.insert(key, Tensor::whole(piece));
        let at = At { key, index: 0 };
        let answer = self.held.answer_push(at, request)?;
        self.mover(out).made(at, answer);
        Ok(())
    }

    /// What the request says must be what the piece is.
    fn check(
        &self,
        at: At,
        request: &Meta,
        layout: Layout,
        dtype: Dtype,
        bytes: Option<usize>,
    ) -> Result<(), StoreError> {
        let (piece, key) = (self.held.piece(at)?, self.held.view.name(at.key));
        let worker = id_to_rank(request.sender);
        match (piece.layout, layout) {
            (Layout::Rows { .. }, Layout::Dense) => {
                return Err(StoreError::DenseToRows { key });
            }
            (Layout::Dense, Layout::Rows { .. }) => {
                return Err(StoreError::RowsToDense { key });
            }
            _ => {}
        }
        if piece.dtype != dtype {
            return Err(StoreError::Type { key, worker, expected: piece.dtype, got: dtype });
        }
        let expected = piece.value.buffer().len();
        match bytes {
            Some(got) if got != expected => {
                let (size, rank) = (dtype.size(), self.held.view.rank(at.key).unwrap_or(0));
                let [whole, part] = [expected, got].map(|bytes| (bytes / size) as u64);
                let cut = is_whole_and_cut(whole, part, rank, self.held.view.ranks());
                Err(StoreError::Size { key, worker, expected, got, cut })
            }
            _ => Ok(()),
        }
    }

    /// A key must lie where its customer's keys are. (Of a sum each worker's own was looked at
    /// where it was made.)
    fn check_space(&self, key: Key, request: &Meta) -> Result<(), StoreError> {
        if request.hop().is_some() || self.held.view.space(key) == space_of(request) {
            return Ok(());
        }
        Err(StoreError::TooLarge { key })
    }

    /// The key at an index of the frame of keys, which must be one that the application can have,
    /// and, where nothing moves, in this server's range.
    fn key(&self, keys: &[u8], index: usize) -> Result<Key, StoreError> {
        let key = key_at(keys, index).ok_or(StoreError::Malformed("a key is missing"))?;
        let rank = self.held.view.checked_local(key).and_then(|_| self.held.view.rank(key));
        let mine = |rank| self.held.config.elastic || server_id(rank) == self.held.config.id;
        match rank.is_some_and(mine) {
            true => Ok(key),
            false => Err(StoreError::Malformed("a key is not in this server's range")),
        }
    }

    /// The piece at which a push is refused that is dense where the key is row_sparse, or the other
    /// way round: its worker counts in another unit than this server, and the part that it names
    /// may never be here.
    fn misfit(&self, key: Key, kind: RequestKind, request: &Meta) -> Option<usize> {
        let piece = self.held.tensors.get(&key).filter(|_| request.push)?.pieces.first()?;
        let has_rows = matches!(piece.layout, Layout::Rows { .. });
        (has_rows != (kind == RequestKind::RowSparse)).then_some(0)
    }

    /// The piece that a request needs.
    fn known(&self, target: RequestTarget) -> Result<At, StoreError> {
        target.at.ok_or_else(|| StoreError::Unknown { key: self.held.view.name(target.key) })
    }
}

impl RequestFrames {
    /// Keys, values and lens; no length is believed before it is checked.
    fn read(frames: &[Bytes]) -> Result<Self, StoreError> {
        let keys = frames.first().cloned().unwrap_or_default();
        if keys.is_empty() || !keys.len().is_multiple_of(KEY_SIZE) {
            return Err(StoreError::Malformed("the frame of keys has no whole number of keys"));
        }
        let vals = frames.get(1).cloned().unwrap_or_default();
        let lens = frames.get(2).cloned().unwrap_or_default();
        let mut all = Vec::with_capacity(lens.len() / size_of::<i32>());
        for len in lens.chunks(size_of::<i32>()) {
            let len = len.try_into().map(i32::from_ne_bytes).ok();
            let len = len.and_then(|len| usize::try_from(len).ok());
            all.push(len.ok_or(StoreError::Malformed("the frame of lens holds no lengths"))?);
        }
        Ok(Self { keys, vals, lens: all })
    }
}

#[cfg(test)]
mod tests;

//! Sends the parts of slices that may go, each its way. Pure. May touch what the module may.

use std::time::Duration;

use smallvec::SmallVec;

use super::order::KeyPushes;
use super::part::{By, Part, PartState, PartWay};
use super::{Flights, Outgoing, SliceFlight, SliceName};
use crate::kv::KvError;
use crate::values::KvPairs;
use crate::wire::elastic::PartAsk;
use crate::wire::{Meta, NodeId, Payload};

impl Flights {
    /// Sends the parts of a slice that wait and may go. The caller has taken the slice out of the
    /// open ones.
    pub(super) fn send_parts(
        &mut self,
        now: Duration,
        flight: &mut SliceFlight,
        out: &mut Vec<Outgoing>,
    ) -> Result<(), KvError> {
        let (name, number, slice) = (flight.name(), flight.number, &flight.slice);
        let (push, key) = (slice.meta.push, slice.key);
        let pushes = self.order.of(key);
        let mut go: SmallVec<[(usize, PartWay); 4]> = SmallVec::new();
        let mut waits = false;
        for (at, part) in flight.parts.iter().enumerate() {
            let PartState::Waiting(since) = part.state else { continue };
            let way = if push { self.way_of(slice, part) } else { Some(part.way()) };
            let Some(way) = way else {
                waits = true;
                continue;
            };
            let blocked =
                || push && pushes.is_some_and(|all| self.is_blocked(all, name, part, way));
            if since > now || !self.may_send_to(part.owner) || blocked() {
                waits = true;
            } else {
                go.push((at, way));
            }
        }
        // A pull need not wait behind the values of other keys that are pushed. It stays behind
        // those of its own.
        let overtakes = !push && !pushes.is_some_and(KeyPushes::is_open);
        // One more than the timestamp of the push of the same key before this one; 0: none was.
        let before = pushes.filter(|_| push).and_then(|all| all.previous(name));
        let after = before.map_or(0, |timestamp| (timestamp as u32).wrapping_add(1));
        let (life, init) = (self.life.number(), push && after == 0 && self.life.makes(key));
        if waits {
            self.waiting.insert(number, name);
        } else {
            self.waiting.remove(&number);
        }
        for (at, way) in go {
            let Some(part) = flight.parts.get_mut(at) else { continue };
            let cut = slice.form.cut(&slice.kv, push, part.from, part.to);
            let mut kv = cut.map_err(|misfit| {
                self.waiting.insert(number, name);
                KvError::misfit(misfit, self.routes.ranks())
            })?;
            part.state = PartState::Sent(way);
            let asks = way.by == By::Name;
            if asks {
                part.asked = (self.tickets.as_ref().map_or(0, |it| it.number()), part.term);
                kv = KvPairs { keys: kv.keys, ..KvPairs::default() };
            }
            let (ticket, overlay) = match &mut self.tickets {
                Some(tickets) if push => tickets.use_for(part.of_key(key), way),
                _ => (None, 0),
            };
            let payload = Payload::Ask(PartAsk {
                slice: slice.rank,
                from: part.from,
                to: part.to,
                term: part.term,
                epoch: self.routes.epoch(),
                after,
                life,
                init,
                ahead: flight.asks_ahead,
                ticket: ticket.map(Box::new),
                overlay,
                asks,
            });
            let meta = Meta { recver: way.next, payload, overtakes, ..slice.meta.clone() };
            out.push(Outgoing { meta, kv });
        }
        Ok(())
    }

    pub(super) fn may_send_to(&self, server: NodeId) -> bool {
        self.known.contains(&server) && !self.lost.contains(&server)
    }

    /// True if a part of a push would overtake an earlier push of the same elements.
    fn is_blocked(&self, pushes: &KeyPushes, name: SliceName, part: &Part, way: PartWay) -> bool {
        let earlier = pushes.before(name).filter_map(|other| self.open.get(&other));
        earlier.flat_map(|flight| &flight.parts).any(|other| part.overtakes(way, other))
    }
}

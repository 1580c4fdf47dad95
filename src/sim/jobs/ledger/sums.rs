//! What goes along trees is opened. A sum is that of the pushes which it names: each of them came
//! by the ticket of the sum and goes through its sender, and none is named twice. A compressed push
//! goes up as it is. All goes along an edge of its tree. An overlay has one content, whoever says
//! it.

use std::collections::BTreeMap;

use bytes::Bytes;
use half::f16;
use pslite_core::trees::{Table, name_of};
use pslite_core::values::kind::{RequestKind, kind_of};
use pslite_core::values::{Dtype, KvPairs};
use pslite_core::wire::trees::{HopKind, Overlay, PushName, Ticket};
use pslite_core::wire::{Key, Meta, NodeId};

/// A worker's customer, its life, and the number of a request.
type Named = (NodeId, i32, u64, i32);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    overlays: BTreeMap<u64, Overlay>,
    /// What each push brought for each part that went along a tree.
    pushes: BTreeMap<(Key, u64, u64, Named, Ticket), Bytes>,
    opened: u64,
}

impl Sums {
    /// Sums that were looked at.
    pub(super) const fn opened(&self) -> u64 {
        self.opened
    }

    /// Somebody has these trees.
    pub(super) fn overlay(&mut self, overlay: &Overlay) -> Option<String> {
        let known = self.overlays.entry(overlay.number).or_insert_with(|| overlay.clone());
        (known != overlay)
            .then(|| format!("two overlays have number {}: {overlay:?}, {known:?}", overlay.number))
    }

    /// A worker pushes a part along a tree.
    pub(super) fn pushed(&mut self, meta: &Meta, kv: &KvPairs, key: Key) {
        let Some(ask) = meta.ask() else { return };
        let Some(ticket) = ask.ticket.as_deref() else { return };
        let part = (key, ask.from, ask.to, named(&name_of(meta)), *ticket);
        self.pushes.insert(part, kv.vals.clone());
    }

    /// A message goes along a tree.
    pub(super) fn sent(&mut self, meta: &Meta, kv: &KvPairs) -> Option<String> {
        let (Some(hop), Some(span)) = (meta.hop(), meta.span()) else { return None };
        let (from, to) = (meta.sender, meta.recver);
        let table = self
            .overlays
            .get(&hop.ticket.overlay)
            .and_then(|overlay| Table::read(overlay.trees.get(hop.ticket.tree as usize)?).ok());
        let Some(table) = table else {
            return Some(format!("{from} sends to {to} along no tree: {:?}", hop.ticket));
        };
        if !table.edges().contains(&(from, to)) {
            return Some(format!("{from} sends to {to}, which is no edge of {:?}", hop.ticket));
        }
        if hop.kind() != HopKind::Up || !meta.error.is_empty() {
            return None;
        }
        self.opened += 1;
        let (kind, dtype) = kind_of(meta.head).unwrap_or((RequestKind::Default, Dtype::F32));
        let is_compressed = kind == RequestKind::Compressed;
        let mut sum: Vec<f32> = Vec::new();
        let mut names: Vec<Named> = Vec::new();
        for name in &hop.names {
            let part = (hop.key, span.start, span.end, named(name), hop.ticket);
            let Some(values) = self.pushes.get(&part) else {
                let text = format!("{from} has in its sum what nobody pushed by {:?}", hop.ticket);
                return Some(format!("{text}: {name:?}"));
            };
            if !table.goes_through(name.worker, from) || names.contains(&named(name)) {
                return Some(format!(
                    "{from} has in its sum a push twice, or not its own: {name:?}"
                ));
            }
            names.push(named(name));
            if is_compressed {
                if hop.names.len() == 1 && kv.vals == *values {
                    continue;
                }
                return Some(format!("{from} sends a compressed push that is none: {name:?}"));
            }
            let values = floats(values, dtype);
            sum.resize(values.len(), 0.0);
            sum.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
        }
        if is_compressed {
            return None;
        }
        let sent = floats(&kv.vals, dtype);
        (sent != sum)
            .then(|| format!("{from} sends {sent:?} as the sum of {names:?}, which is {sum:?}"))
    }
}

const fn named(name: &PushName) -> Named {
    (name.worker, name.customer, name.life, name.timestamp)
}

/// Values of tensors of the simulation: float16, else float32.
fn floats(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    if dtype == Dtype::F16 {
        let (halves, _) = bytes.as_chunks::<2>();
        return halves.iter().map(|half| f16::from_ne_bytes(*half).to_f32()).collect();
    }
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| f32::from_ne_bytes(*word)).collect()
}

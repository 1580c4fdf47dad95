//! A worker's pulls whose answers may land in the caller's memory. May touch the customer;
//! `landing` knows where each answer belongs.

use super::Requests;
use super::outputs::element_of;
use crate::landing::Landings;
use pslite_core::kv::Slices;
use pslite_core::wire::Meta;

impl Requests {
    /// Says where the answers to these slices of a request may land.
    pub(super) fn cut_landing(&self, landings: &Landings, meta: &Meta, slices: &Slices) {
        let pieces = self.side.follows();
        let asked = slices.iter().enumerate().filter_map(|(rank, kv)| Some((rank, kv.as_ref()?)));
        let asked = asked.map(|(rank, kv)| {
            let first = self.side.ranges().get(rank).map_or(0, |range| range.begin);
            let element = if pieces { element_of(meta, kv, first) } else { 0 };
            (rank, kv, element)
        });
        let value_size = self.value_size.unwrap_or(1);
        landings.cut(meta.timestamp, value_size, asked, pieces && meta.push);
    }
}

//! Mistakes of a scheduler that plans trees, and of nodes that send along them.

use std::collections::BTreeMap;

use super::{Plant, Sabotage};
use pslite_core::wire::NodeId;
use pslite_core::wire::trees::TreeTable;

impl Sabotage {
    /// True if trees that were worked out are lost.
    pub(in crate::jobs) fn loses_answers(&self) -> bool {
        self.is(Plant::AnswersLost)
    }

    /// True if the scheduler hears what nodes measured.
    pub(in crate::jobs) fn hears_links(&self) -> bool {
        !self.is(Plant::LinksUnheard)
    }

    /// True if nothing overtakes anything on a connection.
    pub(in crate::jobs) fn forgets_classes(plant: Option<Plant>) -> bool {
        plant == Some(Plant::ClassesForgotten)
    }

    /// The trees that the planners decide on, as they are given out.
    pub(super) fn planted(&self, trees: &mut Vec<TreeTable>) {
        match self.plant {
            Some(Plant::WeightsEven) => trees.iter_mut().for_each(|tree| tree.weight = 1),
            Some(Plant::WaysSwapped) => {
                let nodes = trees.iter_mut().flat_map(|tree| &mut tree.nodes);
                nodes.for_each(|node| std::mem::swap(&mut node.up, &mut node.down));
            }
            Some(Plant::TreesForgotten) => {
                let mut number: BTreeMap<NodeId, usize> = BTreeMap::new();
                trees.retain(|tree| {
                    let number = number.entry(tree.root).or_default();
                    *number += 1;
                    number.is_multiple_of(2) || *number == 1
                });
            }
            _ => {}
        }
    }
}
